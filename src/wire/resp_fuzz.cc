// SPDX-License-Identifier: Apache-2.0
//
// Any bytes, given whole and byte by byte, must be the same replies, and no fault may
// depend on how they came.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/resp.h"

namespace flowguard::wire::resp {
namespace {

// What was understood, as text; all views must be of `bytes`.
void Summarise(const Value& value, std::string_view bytes, std::string& text) {
  text += std::to_string(static_cast<int>(value.type)) + ':' + std::to_string(value.integer) + ':';
  if (!value.text.empty()) {
    FG_CHECK(value.text.data() >= bytes.data());
    FG_CHECK(value.text.data() + value.text.size() <= bytes.data() + bytes.size());
    text += value.text;
  }
  text += '(';
  for (const Value& item : value.items)
    Summarise(item, bytes, text);
  text += ')';
}

void CheckInput(const uint8_t* data, size_t size) {
  // A copy of the exact size, so that the sanitizer sees a read past the end.
  const auto copy = std::make_unique<char[]>(size);
  std::copy_n(data, size, copy.get());
  std::string_view rest(copy.get(), size);
  Reader whole;
  while (true) {
    const Reader::Status status = whole.Read(rest);
    Reader trickle;
    Reader::Status part = Reader::Status::kNeedMore;
    size_t n = 0;
    while (part == Reader::Status::kNeedMore && n < rest.size())
      part = trickle.Read(rest.substr(0, ++n));
    FG_CHECK(part == status || rest.empty());
    if (status == Reader::Status::kBad) {
      FG_CHECK(whole.problem() == trickle.problem());
      FG_CHECK(whole.problem_at() == trickle.problem_at() && whole.problem_at() < rest.size());
    }
    if (status != Reader::Status::kDone) return;
    FG_CHECK(whole.consumed() == n && trickle.consumed() == n);
    std::string one;
    std::string other;
    Summarise(whole.value(), rest, one);
    Summarise(trickle.value(), rest, other);
    FG_CHECK(one == other);
    rest.remove_prefix(n);
  }
}

}  // namespace
}  // namespace flowguard::wire::resp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  flowguard::wire::resp::CheckInput(data, size);
  return 0;
}
