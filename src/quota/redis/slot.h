// SPDX-License-Identifier: Apache-2.0
//
// The slot of a key in a Redis cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace flowguard::quota::redis {

inline constexpr size_t kSlots = 16'384;

// CRC16 (XMODEM) of the key, or of what stands between its first '{' and the next '}'
// when that is not empty.
[[nodiscard]] uint16_t SlotOf(std::string_view key) noexcept;

}  // namespace flowguard::quota::redis
