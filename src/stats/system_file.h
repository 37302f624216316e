// SPDX-License-Identifier: Apache-2.0
//
// Small files of the kernel, below /proc and /sys.
#pragma once

#include <optional>
#include <string>

#include "flowguard/result.h"

namespace flowguard::stats {

// The content; none where there is no such file.
// Errors: kUnavailable, with the path, where it cannot be read or has more than
//         kSystemFileBytesMax.
[[nodiscard]] Result<std::optional<std::string>> ReadSystemFile(const std::string& path);

// The same where the file has to be there.
[[nodiscard]] Result<std::string> ReadNeededFile(const std::string& path);

}  // namespace flowguard::stats
