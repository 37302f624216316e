// SPDX-License-Identifier: Apache-2.0
//
// One pass from the left: what is open is counted, nothing is built.
#include "dialects/sentinel/java_regex.h"

#include <cstdint>

namespace flowguard::dialects::sentinel {

namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsHex(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Scanner {
 public:
  explicit Scanner(std::string_view pattern) : pattern_(pattern) {}

  std::optional<RegexFault> Scan() {
    while (!fault_ && !AtEnd() && !comments_)
      Step();
    if (!fault_ && !comments_ && groups_ > 0) Fail(at_, "a ( without its )");
    return fault_;
  }

 private:
  [[nodiscard]] bool AtEnd() const { return at_ >= pattern_.size(); }
  // NUL at the end; a NUL of the pattern is no special character either.
  [[nodiscard]] char Peek(size_t ahead = 0) const {
    return ahead < pattern_.size() - at_ ? pattern_[at_ + ahead] : '\0';
  }
  void Fail(size_t offset, std::string what) {
    if (!fault_) fault_ = RegexFault{offset, std::move(what)};
  }

  void Step() {
    const size_t begin = at_;
    const char c = pattern_[at_++];
    switch (c) {
      case '\\':
        TakeEscape(begin);
        repeatable_ = true;
        return;
      case '[':
        TakeClass(begin);
        repeatable_ = true;
        return;
      case '(':
        ++groups_;
        repeatable_ = false;
        if (Peek() == '?') TakeGroupKind(begin);
        return;
      case ')':
        if (groups_ == 0) return Fail(begin, "a ) without its (");
        --groups_;
        repeatable_ = true;
        return;
      case '|':
        repeatable_ = false;
        return;
      case '*':
      case '+':
      case '?':
        if (!repeatable_) return Fail(begin, "nothing stands before the " + std::string(1, c));
        EndQuantifier();
        return;
      case '{':
        TakeCount(begin);
        return;
      default:
        repeatable_ = true;
    }
  }

  // What follows a quantifier may make it lazy or possessive; another one may not follow.
  void EndQuantifier() {
    if (Peek() == '?' || Peek() == '+') ++at_;
    repeatable_ = false;
  }

  std::optional<int64_t> TakeNumber() {
    constexpr int64_t kCountMax = 0x7FFFFFFF;
    if (!IsDigit(Peek())) return {};
    int64_t number = 0;
    for (; IsDigit(Peek()); ++at_) {
      if (number <= kCountMax) number = number * 10 + (Peek() - '0');
    }
    return number;
  }

  void TakeCount(size_t begin) {
    const std::optional<int64_t> least = TakeNumber();
    if (!least) return Fail(begin, "a { without a count behind it; write \\{ for the character");
    std::optional<int64_t> most = least;
    if (Peek() == ',') {
      ++at_;
      most = TakeNumber();
    }
    if (Peek() != '}') return Fail(begin, "a { without its }");
    ++at_;
    if (most && *most < *least) return Fail(begin, "a count whose end is below its begin");
    EndQuantifier();
  }

  void TakeGroupKind(size_t begin) {
    ++at_;
    const char kind = Peek();
    if (kind == ':' || kind == '=' || kind == '!' || kind == '>') {
      ++at_;
    } else if (kind == '<') {
      ++at_;
      TakeNamedOrBehind(begin);
    } else {
      TakeFlags(begin);
    }
  }

  void TakeNamedOrBehind(size_t begin) {
    if (Peek() == '=' || Peek() == '!') {
      ++at_;
      return;
    }
    const size_t end = pattern_.find('>', at_);
    if (end == std::string_view::npos || end == at_ || IsDigit(Peek())) {
      return Fail(begin, "a group without a name between < and >");
    }
    at_ = end + 1;
  }

  void TakeFlags(size_t begin) {
    bool off = false;
    while (!AtEnd() && Peek() != ')' && Peek() != ':') {
      const char flag = pattern_[at_++];
      if (flag == '-' && !off) {
        off = true;
      } else if (std::string_view("idmsuxU").find(flag) == std::string_view::npos) {
        return Fail(begin, "a group of an unknown kind");
      } else if (flag == 'x') {
        comments_ = true;  // what is left may be comments, which need no brackets
      }
    }
    if (AtEnd()) return Fail(begin, "a ( without its )");
    // Flags by themselves match nothing, so nothing is there to repeat.
    if (pattern_[at_++] == ')') --groups_;
  }

  // The digits of \xHH, \uHHHH, or \x{H...}.
  bool TakeHex(size_t digits) {
    if (digits == 2 && Peek() == '{') {
      const size_t end = pattern_.find('}', at_);
      if (end == std::string_view::npos || end == at_ + 1) return false;
      at_ = end + 1;
      return true;
    }
    for (; digits > 0; --digits, ++at_) {
      if (!IsHex(Peek())) return false;
    }
    return true;
  }

  void TakeEscape(size_t begin) {
    if (AtEnd()) return Fail(begin, "a \\ at the end");
    const char letter = pattern_[at_++];
    switch (letter) {
      case 'Q': {  // as it stands up to \E
        const size_t end = pattern_.find("\\E", at_);
        at_ = end == std::string_view::npos ? pattern_.size() : end + 2;
        return;
      }
      case 'x':
      case 'u':
        if (!TakeHex(letter == 'x' ? 2 : 4)) Fail(begin, "an escape without its digits");
        return;
      case '0':
        if (Peek() < '0' || Peek() > '7') Fail(begin, "an escape without its digits");
        return;
      case 'c':
        if (AtEnd()) return Fail(begin, "an escape without its character");
        ++at_;
        return;
      case 'p':
      case 'P':
      case 'k':
        return TakeName(begin, letter == 'k' ? '<' : '{', letter == 'k' ? '>' : '}');
      default:
        if (std::string_view("CEFIJKLMOTUYgijlmoqy").find(letter) != std::string_view::npos) {
          Fail(begin, std::string("an escape that is not known, \\") + letter);
        }
    }
  }

  void TakeName(size_t begin, char open, char close) {
    if (Peek() != open) {
      if (open == '<' || AtEnd()) return Fail(begin, "an escape without its name");
      ++at_;  // \pL
      return;
    }
    const size_t end = pattern_.find(close, at_);
    if (end == std::string_view::npos || end == at_ + 1) {
      return Fail(begin, "an escape without its name");
    }
    at_ = end + 1;
  }

  // [...] with classes within; a ] that comes first is the character.
  void TakeClass(size_t begin) {
    size_t depth = 1;
    bool fresh = true;
    if (Peek() == '^') ++at_;
    while (!AtEnd() && !fault_) {
      const size_t here = at_;
      const char c = pattern_[at_++];
      if (c == '\\') {
        TakeEscape(here);
        fresh = false;
      } else if (c == '[') {
        ++depth;
        fresh = true;
        if (Peek() == '^') ++at_;
      } else if (c == ']' && !fresh) {
        if (--depth == 0) return;
      } else {
        fresh = false;
      }
    }
    Fail(begin, "a [ without its ]");
  }

  std::string_view pattern_;
  size_t at_ = 0;
  size_t groups_ = 0;
  bool repeatable_ = false;
  bool comments_ = false;
  std::optional<RegexFault> fault_;
};

}  // namespace

std::optional<RegexFault> FindRegexFault(std::string_view pattern) {
  return Scanner(pattern).Scan();
}

}  // namespace flowguard::dialects::sentinel
