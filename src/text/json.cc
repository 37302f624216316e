// SPDX-License-Identifier: Apache-2.0
//
// The JSON library checks the text and resolves escapes; a cursor of our own walks
// the text in step with its events, because they carry no positions.
#include "text/json.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/bounds.h"
#include "text/duplicate_keys.h"
#include "text/utf8.h"

namespace flowguard::text {

namespace {

// Finds the tokens of text that is known to be JSON up to the token asked for.
class TokenCursor {
 public:
  explicit TokenCursor(std::string_view text) : text_(text) {}

  struct Token {
    Position at;
    std::string_view text;
  };

  // The next string, number, word or bracket.
  Token Next() {
    SkipFiller();
    const size_t begin = at_;
    const Token token{{line_, Column(begin)}, {}};
    if (at_ < text_.size()) at_ = EndOfToken();
    return {token.at, text_.substr(begin, at_ - begin)};
  }

 private:
  void SkipFiller() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        line_begin_ = at_ + 1;
      } else if (c != ' ' && c != '\t' && c != '\r' && c != ',' && c != ':') {
        return;
      }
    }
  }

  [[nodiscard]] size_t EndOfToken() const {
    const char first = text_[at_];
    if (first == '{' || first == '}' || first == '[' || first == ']') return at_ + 1;
    if (first != '"') return std::min(text_.find_first_of(" \t\r\n,:]}", at_), text_.size());
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"')
      end += text_[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text_.size());
  }

  [[nodiscard]] int Column(size_t at) const { return static_cast<int>(at - line_begin_) + 1; }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  size_t line_begin_ = 0;
};

// Receives the library's events; returning false from one ends the reading.
class JsonBuilder {
 public:
  JsonBuilder(std::string_view text, std::string_view name)
      : cursor_(text), text_(text), name_(name) {}

  [[nodiscard]] const std::string& fault() const { return fault_; }
  [[nodiscard]] Node& root() { return root_; }

  bool null() { return Add(NodeOf(Kind::kNull, cursor_.Next().at)); }
  bool boolean(bool /*value*/) { return AddAsWritten(); }
  bool number_integer(int64_t /*value*/) { return AddAsWritten(); }
  bool number_unsigned(uint64_t /*value*/) { return AddAsWritten(); }
  bool number_float(double /*value*/, const std::string& /*text*/) { return AddAsWritten(); }
  bool string(std::string& value) {
    Node node = NodeOf(Kind::kScalar, cursor_.Next().at);
    node.quoted = true;
    node.scalar = std::move(value);
    return Add(std::move(node));
  }
  bool binary(std::vector<std::uint8_t>& /*value*/) { return false; }

  bool key(std::string& value) {
    open_.back().key = std::move(value);
    open_.back().key_at = cursor_.Next().at;
    return true;
  }

  bool start_object(size_t /*members*/) { return Open(Kind::kMap); }
  bool end_object() {
    const auto duplicates = TakeDuplicateKeys(open_.back().node);
    if (!duplicates.empty()) return Fail(duplicates.front().at, duplicates.front().message);
    return Close();
  }
  bool start_array(size_t /*items*/) { return Open(Kind::kSequence); }
  bool end_array() { return Close(); }

  // `after` counts the bytes read, the one at fault included.
  bool parse_error(size_t after, const std::string& /*token*/,
                   const nlohmann::json::exception& exception) {
    const size_t at = std::min(after > 0 ? after - 1 : 0, text_.size());
    std::string_view message = exception.what();
    const size_t words = message.rfind("; ");
    if (words != std::string_view::npos) message.remove_prefix(words + 2);
    return Fail(PositionOf(text_, at), "not JSON: " + std::string(message));
  }

 private:
  struct Frame {
    Node node;
    std::string key{};
    Position key_at{};
  };

  bool Fail(Position at, const std::string& message) {
    fault_ = Place(name_, at) + ": " + message;
    return false;
  }

  bool AddAsWritten() {
    const TokenCursor::Token token = cursor_.Next();
    Node node = NodeOf(Kind::kScalar, token.at);
    node.scalar = std::string(token.text);
    return Add(std::move(node));
  }

  bool Open(Kind kind) {
    const Position at = cursor_.Next().at;
    if (open_.size() >= base::kTextDepthMax) {
      return Fail(at, "objects and arrays within each other; at most " +
                          std::to_string(base::kTextDepthMax) + " are allowed");
    }
    open_.push_back({.node = NodeOf(kind, at)});
    return true;
  }

  bool Close() {
    cursor_.Next();
    Node done = std::move(open_.back().node);
    open_.pop_back();
    return Add(std::move(done));
  }

  bool Add(Node node) {
    if (++nodes_ > base::kTextNodesMax) {
      return Fail(node.at, "more than " + std::to_string(base::kTextNodesMax) + " values");
    }
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (Frame& frame = open_.back(); frame.node.IsSequence()) {
      frame.node.items.push_back(std::move(node));
    } else {
      frame.node.members.push_back({std::move(frame.key), frame.key_at, std::move(node)});
    }
    return true;
  }

  TokenCursor cursor_;
  std::string_view text_;
  std::string_view name_;
  Node root_;
  std::vector<Frame> open_;
  size_t nodes_ = 0;
  std::string fault_;
};

}  // namespace

Result<Node> ParseJson(std::string_view text, std::string_view name) {
  text = WithoutByteOrderMark(text);
  if (text.size() > base::kRuleFileBytesMax) {
    return Error::InvalidArgument(Place(name, {}) + ": " + std::to_string(text.size()) +
                                  " bytes; at most " + std::to_string(base::kRuleFileBytesMax) +
                                  " are allowed");
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return Error::InvalidArgument(Place(name, {}) + ": the text is empty");
  }
  // The library would skip a second mark, which is no filler of JSON.
  if (WithoutByteOrderMark(text).size() != text.size()) {
    return Error::InvalidArgument(Place(name, {}) + ": not JSON: a second byte order mark");
  }
  // The library takes NUL for the end of the text, and would not look at what follows.
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    return Error::InvalidArgument(Place(name, PositionOf(text, nul)) + ": not JSON: a NUL byte");
  }
  JsonBuilder builder(text, name);
  try {
    if (nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
      return std::move(builder.root());
    }
  } catch (const std::exception& exception) {
    return Error::InvalidArgument(Place(name, {}) + ": not JSON: " + exception.what());
  }
  return Error::InvalidArgument(builder.fault());
}

}  // namespace flowguard::text
