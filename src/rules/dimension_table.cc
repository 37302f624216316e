// SPDX-License-Identifier: Apache-2.0
#include "rules/dimension_table.h"

#include <algorithm>
#include <utility>

#include "base/bounds.h"

namespace flowguard::rules {

namespace {

constexpr std::string_view kForms =
    "allowed: ip, method, resource, user, tenant, origin, a name under dimensions, header:NAME, "
    "cookie:NAME, query:NAME, path:NAME, param:NAME";
constexpr std::string_view kSources =
    "allowed: ip, method, resource, header:NAME, cookie:NAME, query:NAME, path:NAME, param:NAME, "
    "or empty (given by the application)";

bool IsAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsBareName(std::string_view text) {
  return !text.empty() && text.size() <= base::kDimensionNameBytesMax && IsAlnum(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlnum(c) || c == '_' || c == '-' || c == '.'; });
}

struct Source {
  DimensionKind kind;
  std::string argument;
};

struct Form {
  std::string_view name;
  DimensionKind kind;
  bool is_token;  // its argument is one; else any text without control characters
};
constexpr Form kDirect[] = {
    {"header", DimensionKind::kHeader, true}, {"cookie", DimensionKind::kCookie, true},
    {"query", DimensionKind::kQuery, false},  {"path", DimensionKind::kPath, false},
    {"param", DimensionKind::kParam, false},
};

// ip, method, resource, or KIND:NAME.
Result<Source> ParseSource(std::string_view text) {
  if (text == "ip") return Source{DimensionKind::kIp, {}};
  if (text == "method") return Source{DimensionKind::kMethod, {}};
  if (text == "resource") return Source{DimensionKind::kResource, {}};
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  for (const Form& form : kDirect) {
    if (form.name != kind || colon == std::string_view::npos) continue;
    std::string argument(text.substr(colon + 1));
    const bool printable = std::all_of(argument.begin(), argument.end(), [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte > 0x20 && byte != 0x7f;
    });
    if (argument.empty() || argument.size() > base::kDimensionNameBytesMax || !printable ||
        (form.is_token && !IsToken(argument))) {
      return Error::InvalidArgument("found \"" + std::string(text) + "\"; after the colon stands " +
                                    (form.is_token
                                         ? "a name as HTTP allows it (letters, digits, '-', '_')"
                                         : "a name without spaces"));
    }
    if (form.kind == DimensionKind::kHeader)
      std::transform(argument.begin(), argument.end(), argument.begin(), AsciiLower);
    return Source{form.kind, std::move(argument)};
  }
  return Error::InvalidArgument("found \"" + std::string(text) + "\"");
}

// Names nearest to a text that has no known form: the kind before the colon, put
// right, or a whole name.
std::string Nearest(std::string_view text, const std::vector<std::string>& names) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return DidYouMean(text, names);
  std::vector<std::string> forms;
  for (const Form& form : kDirect) {
    std::string whole = std::string(form.name) + std::string(text.substr(colon));
    // What is as wrong as the text itself is no help.
    if (ParseSource(whole).ok()) forms.push_back(std::move(whole));
  }
  return DidYouMean(text, forms);
}

}  // namespace

bool IsToken(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return IsAlnum(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

DimensionTable::DimensionTable(const std::vector<DimensionSpec>& specs, Faults& faults) {
  for (size_t i = 0; i < specs.size() && i < base::kDimensionsMax; ++i)
    Declare(specs[i], i, faults);
  if (specs.size() > base::kDimensionsMax) {
    faults.errors.push_back("dimensions: found " + std::to_string(specs.size()) + "; at most " +
                            std::to_string(base::kDimensionsMax) + " are allowed");
  }
  declared_ = dimensions_.size();
}

void DimensionTable::Declare(const DimensionSpec& spec, size_t index, Faults& faults) {
  FaultsAt at(spec.name.empty() ? "dimension #" + std::to_string(index + 1)
                                : "dimension \"" + spec.name + "\"",
              faults);
  if (!IsBareName(spec.name)) {
    at.Error("name",
             "found \"" + spec.name +
                 "\"; a name has letters, digits, '_', '-' and '.', a letter or digit first");
    return;
  }
  if (by_name_.find(spec.name) != by_name_.end()) {
    at.Error("name", "declared twice");
    return;
  }
  Dimension dimension;
  dimension.name = spec.name;
  if (!spec.source.empty()) {
    auto source = ParseSource(spec.source);
    if (!source.ok()) {
      at.Error("source", source.error().message +
                             Nearest(spec.source, {"ip", "method", "resource"}) + "; " +
                             std::string(kSources));
      // Known all the same, so that rules which use it are not called wrong as well.
      by_name_.emplace(spec.name, Append(std::move(dimension)));
      return;
    }
    dimension.kind = source->kind;
    dimension.argument = std::move(source->argument);
  }
  const bool built_in = spec.name == "ip" || spec.name == "method" || spec.name == "resource";
  if (built_in && spec.source != spec.name) {
    at.Error("source", "found \"" + spec.source + "\"; the built-in name \"" + spec.name +
                           "\" keeps its meaning, choose another name");
  }
  if (spec.missing != MissingPolicy::kShare && !spec.missing_value.empty()) {
    at.Error("missing",
             "found value \"" + spec.missing_value +
                 "\" beside skip or refuse; a value means that all such requests share it");
  }
  if (spec.missing_value.size() > base::kKeyValueInlineMax)
    at.Error("missing", "value longer than " + std::to_string(base::kKeyValueInlineMax) + " bytes");
  dimension.missing = spec.missing;
  dimension.trim = spec.trim;
  dimension.lower = spec.lower;
  std::string scratch(spec.missing_value.size(), '\0');
  dimension.missing_value = std::string(Normalise(dimension, spec.missing_value, scratch));
  by_name_.emplace(spec.name, Append(std::move(dimension)));
}

size_t DimensionTable::Append(Dimension dimension) {
  dimension.index = static_cast<uint16_t>(dimensions_.size());
  dimensions_.push_back(std::move(dimension));
  return dimensions_.size() - 1;
}

std::vector<std::string> DimensionTable::Candidates() const {
  std::vector<std::string> names{"ip", "method", "resource", "user", "tenant", "origin"};
  for (size_t i = 0; i < declared_; ++i)
    names.push_back(dimensions_[i].name);
  return names;
}

Result<size_t> DimensionTable::Find(std::string_view name) {
  const auto known = by_name_.find(name);
  if (known != by_name_.end()) return known->second;
  Dimension dimension;
  dimension.name = std::string(name);
  if (name != "user" && name != "tenant" && name != "origin") {
    auto source = ParseSource(name);
    if (!source.ok()) {
      return Error::InvalidArgument(source.error().message + Nearest(name, Candidates()) + "; " +
                                    std::string(kForms));
    }
    dimension.kind = source->kind;
    dimension.argument = std::move(source->argument);
    if (dimension.kind == DimensionKind::kHeader) dimension.name = "header:" + dimension.argument;
  }
  const auto lowered = by_name_.find(dimension.name);  // header:X-Id is header:x-id
  if (lowered != by_name_.end()) return lowered->second;
  if (dimensions_.size() == base::kDimensionsMax) {
    return Error::InvalidArgument("more than " + std::to_string(base::kDimensionsMax) +
                                  " distinct dimensions in one rule set");
  }
  std::string key = dimension.name;
  const size_t index = Append(std::move(dimension));
  by_name_.emplace(std::move(key), index);
  return index;
}

}  // namespace flowguard::rules
