// SPDX-License-Identifier: Apache-2.0
//
// One pass by recursive descent; the depth is bounded, so the stack is.
#include "text/lenient_json.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/bounds.h"
#include "text/utf8.h"

namespace flowguard::text {

namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// What may stand in a key without quotes: a letter of any script, '_', '$', and digits.
bool IsOfWord(char c) {
  return IsLetter(c) || IsDigit(c) || c == '_' || c == '$' || static_cast<unsigned char>(c) >= 0x80;
}

std::optional<uint32_t> HexDigit(char c) {
  if (IsDigit(c)) return static_cast<uint32_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<uint32_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<uint32_t>(c - 'A' + 10);
  return {};
}

void AppendUtf8(std::string& out, uint32_t point) {
  const auto put = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  const auto put_rest = [&](int shift) { put(0x80u | ((point >> shift) & 0x3Fu)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0u | (point >> 6));
    put_rest(0);
  } else if (point < 0x10000) {
    put(0xE0u | (point >> 12));
    put_rest(6);
    put_rest(0);
  } else {
    put(0xF0u | (point >> 18));
    put_rest(12);
    put_rest(6);
    put_rest(0);
  }
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Result<LenientDocument> Read() {
    if (SkipFiller() && !AtEnd() && ReadValue(document_.root, 0) && SkipFiller() && !AtEnd()) {
      Fail("text after the end of the document");
    }
    if (failed_) return Error::InvalidArgument(std::move(fault_));
    return std::move(document_);
  }

 private:
  [[nodiscard]] bool AtEnd() const { return at_ == text_.size(); }
  // The byte ahead; NUL, which the text does not hold, at the end.
  [[nodiscard]] char Peek(size_t ahead = 0) const {
    return ahead < text_.size() - at_ ? text_[at_ + ahead] : '\0';
  }
  [[nodiscard]] Position Here() const { return {line_, static_cast<int>(at_ - line_begin_) + 1}; }

  char Take() {
    const char c = text_[at_++];
    if (c == '\n') {
      ++line_;
      line_begin_ = at_;
    }
    return c;
  }

  bool FailAt(Position at, const std::string& message) {
    if (!failed_) fault_ = Place(name_, at) + ": " + message;
    failed_ = true;
    return false;
  }
  bool Fail(const std::string& message) { return FailAt(Here(), "not JSON: " + message); }

  [[nodiscard]] std::string Found() const {
    if (AtEnd()) return "the text ends here";
    return "found " + Quote(text_.substr(at_, CharacterBytes(text_, at_)));
  }

  // Spaces, line ends and comments.
  bool SkipFiller() {
    while (!AtEnd()) {
      const char c = Peek();
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        Take();
      } else if (c == '/') {
        if (!SkipComment()) return false;
      } else {
        return true;
      }
    }
    return true;
  }

  bool SkipComment() {
    const Position begin = Here();
    const char second = Peek(1);
    if (second == '/') {
      while (!AtEnd() && Peek() != '\n')
        Take();
      return true;
    }
    if (second != '*') return Fail("a / that begins no comment");
    const size_t end = text_.find("*/", at_ + 2);
    if (end == std::string_view::npos) return FailAt(begin, "not JSON: the comment has no end");
    while (at_ < end + 2)
      Take();
    return true;
  }

  // Of the filler ahead, and of any commas in it.
  bool SkipCommas() {
    do {
      if (!SkipFiller()) return false;
      if (Peek() != ',') return true;
      Take();
    } while (true);
  }

  bool ReadValue(Node& out, size_t depth) {
    const Position at = Here();
    if (++nodes_ > base::kTextNodesMax) {
      return FailAt(at, "more than " + std::to_string(base::kTextNodesMax) + " values");
    }
    const char c = Peek();
    if (c == '{' || c == '[') {
      if (depth == base::kTextDepthMax) {
        return FailAt(at, "objects and arrays within each other; at most " +
                              std::to_string(base::kTextDepthMax) + " are allowed");
      }
      out = NodeOf(c == '{' ? Kind::kMap : Kind::kSequence, at);
      return c == '{' ? ReadObject(out, depth + 1) : ReadArray(out, depth + 1);
    }
    out = NodeOf(Kind::kScalar, at);
    if (c == '"' || c == '\'') {
      out.quoted = true;
      return ReadQuoted(out.scalar);
    }
    if (IsDigit(c) || c == '-' || c == '+') return ReadNumber(out.scalar);
    return ReadWord(out);
  }

  bool ReadWord(Node& out) {
    const Position at = Here();
    const std::string_view word = TakeWord();
    if (word.empty()) return Fail(Found() + "; a value is allowed");
    if (word == "null") {
      out = NodeOf(Kind::kNull, at);
      return true;
    }
    if (word != "true" && word != "false") {
      return FailAt(at, "not JSON: found " + Quote(word) +
                            "; allowed: true, false, null, numbers, text in quotes");
    }
    out.scalar = std::string(word);
    return true;
  }

  std::string_view TakeWord() {
    const size_t begin = at_;
    while (!AtEnd() && IsOfWord(Peek()))
      Take();
    return text_.substr(begin, at_ - begin);
  }

  void TakeDigits() {
    while (IsDigit(Peek()))
      Take();
  }

  bool ReadNumber(std::string& out) {
    const Position at = Here();
    const size_t begin = at_;
    if (!IsDigit(Peek())) Take();
    const size_t digits = at_;
    TakeDigits();
    bool whole = at_ > digits;
    if (whole && Peek() == '.') {
      Take();
      TakeDigits();
    }
    if (whole && (Peek() == 'e' || Peek() == 'E')) {
      Take();
      if (Peek() == '+' || Peek() == '-') Take();
      whole = IsDigit(Peek());
      TakeDigits();
    }
    out = std::string(text_.substr(begin, at_ - begin));
    const std::string_view letter = TakeWord();
    const bool known = letter.empty() || letter == "L" || letter == "F" || letter == "D";
    if (whole && known && Peek() != '.') return true;
    TakeWord();
    return FailAt(at, "not JSON: " + Quote(text_.substr(begin, at_ - begin)) + " is not a number");
  }

  bool ReadQuoted(std::string& out) {
    const Position begin = Here();
    const char quote = Take();
    while (!AtEnd()) {
      const char c = Peek();
      if (c == '\\') {
        if (!ReadEscape(out)) return false;
        continue;
      }
      Take();
      if (c == quote) return true;
      out += c;
    }
    return FailAt(begin, "not JSON: the text in quotes has no end");
  }

  bool ReadEscape(std::string& out) {
    constexpr std::string_view kLetters = "\"'\\/bfFnrtv01234567";
    constexpr std::string_view kMeant("\"'\\/\b\f\f\n\r\t\v\0\1\2\3\4\5\6\7", 19);
    static_assert(kLetters.size() == kMeant.size());
    const Position at = Here();
    const char letter = Peek(1);
    if (letter == 'u') return ReadUnicode(out);
    if (letter == 'x') {
      const std::optional<uint32_t> point = TakeHex(2);
      if (!point) return FailAt(at, "not JSON: \\x needs two hexadecimal digits");
      AppendUtf8(out, *point);
      return true;
    }
    const size_t index = letter == '\0' ? std::string_view::npos : kLetters.find(letter);
    if (index == std::string_view::npos) return Fail("an escape that is not known");
    Take();
    Take();
    out += kMeant[index];
    return true;
  }

  // \uHHHH, or two of them for a character beyond U+FFFF.
  bool ReadUnicode(std::string& out) {
    const Position at = Here();
    const auto in = [](uint32_t value, uint32_t low, uint32_t high) {
      return value >= low && value <= high;
    };
    std::optional<uint32_t> point = TakeHex(4);
    if (!point) return FailAt(at, "not JSON: \\u needs four hexadecimal digits");
    if (in(*point, 0xD800, 0xDBFF)) {
      const bool escape = Peek() == '\\' && Peek(1) == 'u';
      const std::optional<uint32_t> low = escape ? TakeHex(4) : std::nullopt;
      if (!low || !in(*low, 0xDC00, 0xDFFF)) point.reset();
      if (point) point = 0x10000 + ((*point - 0xD800) << 10) + (*low - 0xDC00);
    } else if (in(*point, 0xDC00, 0xDFFF)) {
      point.reset();
    }
    if (!point) return FailAt(at, "not JSON: half of a character (a surrogate without its other)");
    AppendUtf8(out, *point);
    return true;
  }

  // The digits behind a backslash and a letter; takes those too.
  std::optional<uint32_t> TakeHex(size_t digits) {
    Take();
    Take();
    uint32_t value = 0;
    for (; digits > 0; --digits) {
      const std::optional<uint32_t> digit = HexDigit(Peek());
      if (!digit) return {};
      Take();
      value = value * 16 + *digit;
    }
    return value;
  }

  bool ReadKey(std::string& out) {
    const char c = Peek();
    if (c == '"' || c == '\'') return ReadQuoted(out);
    out = std::string(TakeWord());
    return !out.empty() || Fail(Found() + "; a key or } is allowed");
  }

  bool ReadObject(Node& out, size_t depth) {
    Take();
    while (true) {
      if (!SkipCommas()) return false;
      if (Peek() == '}') break;
      Member member;
      member.key_at = Here();
      if (!ReadKey(member.key) || !SkipFiller()) return false;
      if (Peek() != ':') return Fail(Found() + "; a : is allowed after the key");
      Take();
      if (!SkipFiller() || !ReadValue(member.value, depth)) return false;
      out.members.push_back(std::move(member));
      if (!SkipFiller()) return false;
      if (Peek() != ',' && Peek() != '}') return Fail(Found() + "; a comma or } is allowed");
    }
    Take();
    for (DuplicateKey& duplicate : TakeDuplicateKeys(out, KeepOfDuplicates::kLast)) {
      if (document_.duplicates.size() == base::kTextFaultsMax) break;
      document_.duplicates.push_back(std::move(duplicate));
    }
    return true;
  }

  bool ReadArray(Node& out, size_t depth) {
    Take();
    while (true) {
      if (!SkipCommas()) return false;
      if (Peek() == ']') break;
      Node item;
      if (!ReadValue(item, depth)) return false;
      out.items.push_back(std::move(item));
      if (!SkipFiller()) return false;
      if (Peek() != ',' && Peek() != ']') return Fail(Found() + "; a comma or ] is allowed");
    }
    Take();
    return true;
  }

  std::string_view text_;
  std::string_view name_;
  size_t at_ = 0;
  int line_ = 1;
  size_t line_begin_ = 0;
  size_t nodes_ = 0;
  LenientDocument document_;
  bool failed_ = false;
  std::string fault_;
};

}  // namespace

Result<LenientDocument> ReadLenientJson(std::string_view text, std::string_view name) {
  text = WithoutByteOrderMark(text);
  if (text.size() > base::kRuleFileBytesMax) {
    return Error::InvalidArgument(Place(name, {}) + ": " + std::to_string(text.size()) +
                                  " bytes; at most " + std::to_string(base::kRuleFileBytesMax) +
                                  " are allowed");
  }
  const size_t bad = FindForbiddenByte(text);
  if (bad < text.size()) {
    return Error::InvalidArgument(Place(name, PositionOf(text, bad)) +
                                  ": a byte that is no text (a control character, or not UTF-8); "
                                  "save the file as UTF-8");
  }
  return Reader(text, name).Read();
}

}  // namespace flowguard::text
