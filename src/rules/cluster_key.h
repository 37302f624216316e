// SPDX-License-Identifier: Apache-2.0
//
// How the key of a cluster rule is told to a token server: as the one text of a param-flow
// question.  The server's overrides are found by it, and so every client of a rule says it
// alike, whatever windows and algorithms its own rule file has.
//
//   by one dimension    its value, as Normalise gives it
//   else                the parts of the key, as key.h encodes them, without the identity
//
// Else is: several dimensions; a value of more than kKeyValueInlineMax bytes, which stands
// there as a hash; a value that is missing.  No override is for those.  A value that a client
// made to look like one of them is counted with it, which is nothing that the client could
// not have by sending that value, or none.
//
// The text is counted bytes, and need not be UTF-8.  Clients that tell what type a value has
// send it as such; CanonicalText is for the server, to find the override of a number.
//
// Threads: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "flowguard/rule.h"

namespace flowguard::rules {

// The text for a key that KeyBuilder encoded, as RemoteTake::key has it.
// Result: views `encoded`; of at most kKeyBytesMax bytes.
// Cost:   no allocation.
[[nodiscard]] std::string_view ClusterKeyOf(std::string_view encoded) noexcept;

// The text of a value of this type, one for all ways to write it: "7" of "+07", and for
// fractions the fewest digits that read as the same value of the type, "2.5" of "2.50".  Of
// kString and kAny the text as it is.
// Nothing: the text is no value of the type.
[[nodiscard]] std::optional<std::string> CanonicalText(ValueType type, std::string_view text);

// The word for it in rules: "int".
[[nodiscard]] std::string_view NameOf(ValueType type) noexcept;

}  // namespace flowguard::rules
