// SPDX-License-Identifier: Apache-2.0
//
// Whatever the bytes, the kind and the profile: reading ends with rules or with an error
// that says where, rules that were read are written so that they read back the same, and
// what they become and become again on the way back is valid.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "dialects/sentinel/from_rules.h"
#include "dialects/sentinel/reader.h"
#include "dialects/sentinel/to_rules.h"
#include "dialects/sentinel/writer.h"
#include "text/json.h"

namespace {

using flowguard::dialects::sentinel::FromRules;
using flowguard::dialects::sentinel::Kind;
using flowguard::dialects::sentinel::kKinds;
using flowguard::dialects::sentinel::Profile;
using flowguard::dialects::sentinel::ReadOptions;
using flowguard::dialects::sentinel::ReadRules;
using flowguard::dialects::sentinel::RuleList;
using flowguard::dialects::sentinel::ToRules;
using flowguard::dialects::sentinel::WriteRules;

void Check(std::string_view text, const ReadOptions& options) {
  const auto read = ReadRules(text, "f", options);
  if (!read.ok()) {
    FG_CHECK(read.error().message.substr(0, 2) == "f:");
    return;
  }
  const std::string written = WriteRules(read->rules);
  FG_CHECK(flowguard::text::ParseJson(written, "g").ok());
  // What was dropped is gone, so the strict profile takes it too.
  const auto again = ReadRules(written, "g", {KindOf(read->rules), Profile::kDefault});
  FG_CHECK(again.ok());
  FG_CHECK(WriteRules(again->rules) == written);
  for (const RuleList& list : FromRules(ToRules(read->rules, "f").rules).lists)
    FG_CHECK(ReadRules(WriteRules(list), "h", {KindOf(list), Profile::kDefault}).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  ReadOptions options;
  // The first byte chooses: kinds by number, and by detection for the rest.
  const size_t choice = data[0] % (2 * (kKinds + 1));
  if (choice / 2 < kKinds) options.kind = static_cast<Kind>(choice / 2);
  if (choice % 2 == 1) options.profile = Profile::kCompat;
  Check(text, options);
  return 0;
}
