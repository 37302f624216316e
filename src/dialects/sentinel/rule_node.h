// SPDX-License-Identifier: Apache-2.0
//
// One rule from its map: members by their smart names into the fields of the struct, and
// where each of them stands.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dialects/fields.h"
#include "dialects/sentinel/java_values.h"
#include "dialects/sentinel/members.h"
#include "dialects/sentinel/reader.h"

namespace flowguard::dialects::sentinel {

// A member that says nothing about the rule, or belongs to versions before 1.8.
[[nodiscard]] bool IsIgnoredMember(std::string_view name) noexcept;

// The member that was probably meant by one that is unknown, or none: one that is spelt
// nearly so, or that says the same in rules of another kind.
[[nodiscard]] std::string_view ProbablyMeant(std::string_view name,
                                             const std::vector<std::string_view>& known);

// Threads: one owner.
class RuleNode {
 public:
  // `heading` begins every message: "flow rule #2".
  RuleNode(std::string heading, Profile profile, Problems& problems)
      : heading_(std::move(heading)), profile_(profile), problems_(problems) {}

  // Reads the map; what does not fit is noted as a fault.
  template <typename Bean>
  void Read(const text::Node& node, Bean& bean, const std::string& path = {}) {
    if (path.empty()) at_ = node.at;
    for (const text::Member& member : node.members)
      ReadMember(member, bean, path);
  }

  // False after a value that does not fit.
  [[nodiscard]] bool fits() const noexcept { return fits_; }

  // The place of a member, of what it is in, or of the rule.
  [[nodiscard]] text::Position PlaceOf(const std::string& path) const;

  void Fault(text::Position at, const std::string& message) {
    fits_ = false;
    problems_.Fault(at, heading_ + ": " + message);
  }
  void Warn(text::Position at, const std::string& message) {
    problems_.Warn(at, heading_ + ": " + message);
  }
  // What Sentinel passes over: a fault, or by profile a warning with `instead` behind it.
  void PassOver(text::Position at, const std::string& message, std::string_view instead);

  // One value as Java reads it into a field.
  template <typename T>
  bool ReadJavaValue(const std::string& path, const text::Node& node, T& field) {
    const std::string told = heading_ + ": " + path;
    const bool read = ReadJava(Value{told, node, problems_}, field);
    fits_ = fits_ && read;
    return read;
  }

 private:
  template <typename Bean>
  void ReadMember(const text::Member& member, Bean& bean, const std::string& path) {
    const std::string_view key = member.key;
    bool found = false;
    EachMember(bean, [&](std::string_view name, auto& field) {
      if (found) return;
      found = SameSmartName(name, key);
      if constexpr (std::is_same_v<decltype(field), bool&>) {
        // "isRegex" is taken for "regex", for booleans alone.
        found = found || (key.substr(0, 2) == "is" && SameSmartName(name, key.substr(2)));
      }
      if (!found) return;
      const std::string member_path = path + std::string(name);
      NotePlace(member_path, member);
      ReadField(member.value, field, member_path);
    });
    if (found) return;
    std::vector<std::string_view> known;
    EachMember(bean,
               [&known](std::string_view name, const auto& /*field*/) { known.push_back(name); });
    NoteUnknown(member, known, path);
  }

  template <typename T>
  void ReadField(const text::Node& node, T& field, const std::string& path) {
    if constexpr (requires(const Value& value) { ReadJava(value, field); }) {
      ReadJavaValue(path, node, field);
    } else {
      ReadNested(node, field, path);
    }
  }

  template <typename Bean>
  void ReadNested(const text::Node& node, std::optional<Bean>& field, const std::string& path) {
    field.reset();
    if (IsNothing(node) || (node.IsSequence() && node.items.empty())) return;
    if (!node.IsMap()) return FaultOfKind(node, path, "a map is allowed");
    Read(node, field.emplace(), path + ".");
  }

  template <typename Item>
  void ReadNested(const text::Node& node, std::optional<std::vector<Item>>& field,
                  const std::string& path) {
    field.reset();
    if (!IsNothing(node)) ReadNested(node, field.emplace(), path);
  }

  // One map stands for a list of one, as for fastjson.
  template <typename Item>
  void ReadNested(const text::Node& node, std::vector<Item>& field, const std::string& path) {
    field.clear();
    if (node.IsMap()) {
      ReadItem(node, field, path);
    } else if (node.IsSequence()) {
      for (const text::Node& item : node.items)
        ReadItem(item, field, path);
    } else if (!IsNothing(node)) {
      FaultOfKind(node, path, "a list of maps is allowed");
    }
  }

  template <typename Item>
  void ReadItem(const text::Node& node, std::vector<Item>& items, const std::string& path) {
    const std::string item_path = path + "[" + std::to_string(items.size()) + "]";
    places_[item_path] = node.at;
    Item& item = items.emplace_back();
    if (IsNothing(node)) return;
    if (!node.IsMap()) return FaultOfKind(node, item_path, "a map is allowed");
    Read(node, item, item_path + ".");
  }

  [[nodiscard]] static bool IsNothing(const text::Node& node) {
    return node.IsNull() || (node.quoted && node.scalar.empty());
  }

  void FaultOfKind(const text::Node& node, const std::string& path, std::string_view allowed);
  void NotePlace(const std::string& path, const text::Member& member);
  void NoteUnknown(const text::Member& member, const std::vector<std::string_view>& known,
                   const std::string& path);

  std::string heading_;
  Profile profile_;
  Problems& problems_;
  text::Position at_;
  std::map<std::string, text::Position> places_;  // by path
  bool fits_ = true;
};

}  // namespace flowguard::dialects::sentinel
