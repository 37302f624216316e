// SPDX-License-Identifier: Apache-2.0
//
// Values of a request by name: header, cookie, query parameter.  They become parts of
// keys, so two spellings of one value should be one value, and a client must not be
// able to show the limiter one value and the upstream another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "wire/http1.h"

namespace flowguard::http {

enum class FieldStatus : uint8_t {
  kAbsent,
  kFound,      // value may be empty
  kAmbiguous,  // several values that differ: the upstream may read another than we do
  kTooLong,    // does not fit the scratch space once decoded or joined
};

struct FieldValue {
  FieldStatus status = FieldStatus::kAbsent;
  std::string_view value;  // when kFound; a view of the request or of the scratch space
};

enum class RepeatedLines : uint8_t {
  kAmbiguous,  // for keys (the default of the servers, who answer 400): lines that differ are
               // kAmbiguous, equal ones are one
  kFirst,      // the first line counts
  kJoin,       // lists: all lines in order, joined with ", "
};

// The header `lower_name` of a request; case of the received name does not matter.
// Requires: lower_name is in lower case.
[[nodiscard]] FieldValue FindHeader(const wire::HeaderList& headers, std::string_view lower_name,
                                    RepeatedLines repeated, std::span<char> scratch) noexcept;

// The cookie of that name over all Cookie lines; quotes around the value are taken off.
// Names are compared exactly.  Several that are equal are one, several that differ are
// kAmbiguous.
[[nodiscard]] FieldValue FindCookie(const wire::HeaderList& headers,
                                    std::string_view name) noexcept;

// The parameter of that name in a raw query ("a=1&b=2"), percent and '+' decoded; names
// are decoded before they are compared.  A broken escape stands for itself.  A name
// without '=' has the empty value.  Several that are equal once decoded are one, several
// that differ are kAmbiguous.
[[nodiscard]] FieldValue FindQueryParameter(std::string_view query, std::string_view name,
                                            std::span<char> scratch) noexcept;

}  // namespace flowguard::http
