// SPDX-License-Identifier: Apache-2.0
#include "text/yaml.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <sstream>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "base/bounds.h"
#include "text/duplicate_keys.h"
#include "text/utf8.h"

namespace flowguard::text {

namespace {

Position At(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return {mark.line + 1, mark.column + 1};
}

// Builds the tree from the reader's events.  A fault that leaves no tree to go on
// with halts it: later events are ignored, so memory stays bounded.
class TreeBuilder : public YAML::EventHandler {
 public:
  [[nodiscard]] bool halted() const { return halted_; }
  [[nodiscard]] YamlDocument& document() { return document_; }
  // Of the last scalar in quotes, if there is one.
  [[nodiscard]] std::optional<Position> last_quoted() const { return last_quoted_; }

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    Fault(At(mark), "the anchor &" + name +
                        " is not supported; write the value out where it is meant, or quote a "
                        "value that begins with &");
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    Fault(At(mark),
          "aliases (*name) are not supported; write the value out, or quote a value that begins "
          "with *");
    Add(NodeOf(Kind::kNull, At(mark)), "*");
  }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    if (WantsKey()) return Halt(At(mark), "a key is missing before the colon");
    // The reader's mark of a value that is not there is that of the next token.
    const bool in_map = !open_.empty() && open_.back().node.IsMap();
    Add(NodeOf(Kind::kNull, in_map ? open_.back().key_at : At(mark)), {});
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    Node node = NodeOf(Kind::kScalar, At(mark));
    node.quoted = tag == "!";
    if (node.quoted) last_quoted_ = node.at;
    if (!node.quoted && tag != "?") RefuseTag(mark, tag);
    if (!WantsKey()) node.scalar = value;
    Add(std::move(node), value);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    Open(mark, tag, Kind::kSequence);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    Open(mark, tag, Kind::kMap);
  }
  void OnMapEnd() override {
    if (!halted_) RefuseDuplicates(open_.back().node);
    Close();
  }

 private:
  struct Frame {
    Node node;
    bool has_key = false;
    std::string key{};
    Position key_at{};
  };

  void Fault(Position at, std::string message) {
    if (halted_ || document_.faults.size() >= base::kTextFaultsMax) return;
    document_.faults.push_back({at, std::move(message)});
  }

  // The fault that ends it all is the only one told: it is what to mend first.
  void Halt(Position at, std::string message) {
    if (halted_) return;
    document_.faults.clear();
    Fault(at, std::move(message));
    halted_ = true;
    open_.clear();
  }

  void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag == "tag:yaml.org,2002:str") return;
    Fault(At(mark), "the tag " + Quote(tag) + " is not supported; write a plain value");
  }

  [[nodiscard]] bool WantsKey() const {
    return !open_.empty() && open_.back().node.IsMap() && !open_.back().has_key;
  }

  void Open(const YAML::Mark& mark, const std::string& tag, Kind kind) {
    if (halted_) return;
    if (tag != "?" && tag != "!" && !tag.empty()) RefuseTag(mark, tag);
    if (WantsKey()) return Halt(At(mark), "a key is one word, not a list or a map");
    if (open_.size() >= base::kTextDepthMax) {
      return Halt(At(mark), "maps and lists within each other; at most " +
                                std::to_string(base::kTextDepthMax) + " are allowed");
    }
    open_.push_back({.node = NodeOf(kind, At(mark))});
  }

  void Close() {
    if (halted_) return;
    Node done = std::move(open_.back().node);
    open_.pop_back();
    Add(std::move(done), {});
  }

  // Puts a whole value (or, where a map wants one, a key) in its place.
  void Add(Node node, const std::string& key) {
    if (halted_) return;
    if (++nodes_ > base::kTextNodesMax) {
      return Halt(node.at, "more than " + std::to_string(base::kTextNodesMax) + " values");
    }
    if (open_.empty()) {
      document_.root = std::move(node);
      return;
    }
    Frame& frame = open_.back();
    if (frame.node.IsSequence()) {
      frame.node.items.push_back(std::move(node));
    } else if (!frame.has_key) {
      frame.has_key = true;
      frame.key = key;
      frame.key_at = node.at;
    } else {
      frame.has_key = false;
      frame.node.members.push_back({std::move(frame.key), frame.key_at, std::move(node)});
    }
  }

  void RefuseDuplicates(Node& map) {
    for (const DuplicateKey& duplicate : TakeDuplicateKeys(map)) {
      Fault(duplicate.at, duplicate.message);
    }
  }

  YamlDocument document_;
  std::vector<Frame> open_;
  size_t nodes_ = 0;
  bool halted_ = false;
  std::optional<Position> last_quoted_;
};

Error FaultAt(std::string_view file_name, Position at, const std::string& message) {
  return Error::InvalidArgument(Place(file_name, at) + ": " + message);
}

// What the reader's words leave out: the usual cause.
std::string Hint(const std::string& message) {
  if (message.find("tab") != std::string::npos) return "; indent with spaces";
  if (message.find("alias") != std::string::npos || message.find("anchor") != std::string::npos) {
    return "; quote a value that begins with * or &";
  }
  return {};
}

Result<void> CheckBytes(std::string_view text, std::string_view file_name) {
  if (text.size() > base::kRuleFileBytesMax) {
    return FaultAt(file_name, {},
                   std::to_string(text.size()) + " bytes; at most " +
                       std::to_string(base::kRuleFileBytesMax) + " are allowed");
  }
  const size_t bad = FindForbiddenByte(text);
  if (bad == text.size()) return {};
  return FaultAt(file_name, PositionOf(text, bad),
                 "a byte that is no text (a control character, or not UTF-8); save the file as "
                 "UTF-8");
}

// The text from a place on.
std::string_view TextFrom(std::string_view text, Position at) {
  for (; at.line > 1; --at.line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(std::min(static_cast<size_t>(at.column - 1), text.size()));
}

// Whether the text, which begins with a quote, has the other one.
bool QuoteIsClosed(std::string_view text) {
  if (text.empty() || (text.front() != '"' && text.front() != '\'')) return true;
  const char quote = text.front();
  for (size_t at = 1; at < text.size(); ++at) {
    const bool doubled = quote == '\'' && text.substr(at, 2) == "''";
    const bool escape = quote == '"' && text[at] == '\\';
    if (doubled || escape) {
      ++at;
    } else if (text[at] == quote) {
      return true;
    }
  }
  return false;
}

// A tab before the first word of a line, which YAML forbids and its readers explain
// badly.
bool IndentedByTab(std::string_view text, int line_number) {
  text = TextFrom(text, {line_number, 1});
  const size_t word = text.find_first_not_of(" \t");
  return text.substr(0, word).find('\t') != std::string_view::npos;
}

}  // namespace

Result<YamlDocument> ReadYaml(std::string_view text, std::string_view file_name) {
  text = WithoutByteOrderMark(text);
  if (auto checked = CheckBytes(text, file_name); !checked.ok()) return checked.error();
  TreeBuilder builder;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return FaultAt(file_name, {}, "the file is empty");
    if (!builder.halted()) {
      TreeBuilder second;
      if (parser.HandleNextDocument(second)) {
        return FaultAt(file_name, second.document().root.at,
                       "text after the end of the document; one document is allowed (check the "
                       "indentation of this line)");
      }
    }
  } catch (const YAML::Exception& exception) {
    const Position at = At(exception.mark);
    const std::string hint = IndentedByTab(text, at.line) ? "; the line is indented by a tab, use "
                                                            "spaces"
                                                          : Hint(exception.msg);
    return FaultAt(file_name, at, "not YAML: " + exception.msg + hint);
  } catch (const std::exception& exception) {
    return FaultAt(file_name, {}, std::string("not YAML: ") + exception.what());
  }
  // The reader takes the end of a cut-off file for the end of a text in quotes, which
  // can only be the last one.
  if (builder.last_quoted() && !QuoteIsClosed(TextFrom(text, *builder.last_quoted()))) {
    return FaultAt(file_name, *builder.last_quoted(), "the quote is not closed");
  }
  YamlDocument& document = builder.document();
  if (builder.halted()) {
    return FaultAt(file_name, document.faults.front().at, document.faults.front().message);
  }
  return std::move(document);
}

Result<Node> ParseYaml(std::string_view text, std::string_view file_name) {
  auto document = ReadYaml(text, file_name);
  if (!document.ok()) return document.error();
  std::string message;
  for (const YamlDocument::Fault& fault : document->faults) {
    if (!message.empty()) message += '\n';
    message += Place(file_name, fault.at) + ": " + fault.message;
  }
  if (!message.empty()) return Error::InvalidArgument(std::move(message));
  return std::move(document->root);
}

}  // namespace flowguard::text
