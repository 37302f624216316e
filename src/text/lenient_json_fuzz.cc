// SPDX-License-Identifier: Apache-2.0
//
// Whatever the bytes: the lenient reader ends with a tree or with an error that says
// where, and reads what is JSON exactly as the strict reader does.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/json.h"
#include "text/lenient_json.h"

namespace {

using flowguard::text::Node;

void CheckSame(const Node& a, const Node& b) {
  FG_CHECK(a.kind == b.kind && a.quoted == b.quoted && a.at == b.at && a.scalar == b.scalar);
  FG_CHECK(a.items.size() == b.items.size() && a.members.size() == b.members.size());
  for (size_t i = 0; i < a.items.size(); ++i)
    CheckSame(a.items[i], b.items[i]);
  for (size_t i = 0; i < a.members.size(); ++i) {
    FG_CHECK(a.members[i].key == b.members[i].key && a.members[i].key_at == b.members[i].key_at);
    CheckSame(a.members[i].value, b.members[i].value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto lenient = flowguard::text::ReadLenientJson(text, "f");
  if (!lenient.ok()) FG_CHECK(lenient.error().message.substr(0, 2) == "f:");
  const auto strict = flowguard::text::ParseJson(text, "f");
  if (strict.ok()) {
    FG_CHECK(lenient.ok());
    FG_CHECK(lenient->duplicates.empty());
    CheckSame(*strict, lenient->root);
  }
  return 0;
}
