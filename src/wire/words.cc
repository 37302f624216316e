// SPDX-License-Identifier: Apache-2.0
#include "wire/http1.h"
#include "wire/known_names.h"
#include "wire/scan.h"

namespace flowguard::wire {
int StatusFor(BadReason reason) noexcept {
  switch (reason) {
    case BadReason::kNone:
      return 200;
    case BadReason::kSyntax:
    case BadReason::kBadHost:
    case BadReason::kBadFraming:
      return 400;
    case BadReason::kTargetTooLong:
      return 414;
    case BadReason::kExpectation:
      return 417;
    case BadReason::kHeadTooLarge:
      return 431;
    case BadReason::kMethodUnsupported:
    case BadReason::kCodingUnsupported:
      return 501;
    case BadReason::kVersion:
      return 505;
  }
  return 400;
}

std::string_view Describe(BadReason reason) noexcept {
  switch (reason) {
    case BadReason::kNone:
      return "no fault";
    case BadReason::kSyntax:
      return "not an HTTP/1.1 message";
    case BadReason::kBadHost:
      return "Host is missing, repeated or not a host";
    case BadReason::kBadFraming:
      return "body length is contradictory or malformed";
    case BadReason::kTargetTooLong:
      return "request target too long";
    case BadReason::kExpectation:
      return "unknown expectation";
    case BadReason::kHeadTooLarge:
      return "header section too large";
    case BadReason::kMethodUnsupported:
      return "method not supported";
    case BadReason::kCodingUnsupported:
      return "transfer coding not supported";
    case BadReason::kVersion:
      return "HTTP version not supported";
  }
  return "not an HTTP/1.1 message";
}

bool IsToken(std::string_view name) noexcept {
  const char* end = name.data() + name.size();
  return !name.empty() && SkipToken(name.data(), name.data(), end) == end;
}

bool IsFieldValue(std::string_view value) noexcept {
  const char* end = value.data() + value.size();
  return SkipValue(value.data(), value.data(), end) == end;
}

bool EqualsIgnoreCase(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; };
  for (size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

KnownHeader Recognise(std::string_view name) noexcept {
  return KnownName(name);
}

}  // namespace flowguard::wire
