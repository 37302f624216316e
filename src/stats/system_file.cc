// SPDX-License-Identifier: Apache-2.0
#include "stats/system_file.h"

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/bounds.h"

namespace flowguard::stats {
namespace {

Error Failed(const std::string& path, int code) {
  return Error::Unavailable("cannot read " + path + ": " +
                            std::error_code(code, std::generic_category()).message());
}

}  // namespace

Result<std::optional<std::string>> ReadSystemFile(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    // ENODEV: a group that is about to go.
    if (errno == ENOENT || errno == ENOTDIR || errno == ENODEV) {
      return std::optional<std::string>();
    }
    return Failed(path, errno);
  }
  std::string text;
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t got = ::read(file, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const int code = got < 0 ? errno : 0;
      ::close(file);
      if (code != 0) return Failed(path, code);
      return std::optional<std::string>(std::move(text));
    }
    text.append(piece.data(), static_cast<size_t>(got));
    if (text.size() > base::kSystemFileBytesMax) {
      ::close(file);
      return Failed(path, EFBIG);
    }
  }
}

Result<std::string> ReadNeededFile(const std::string& path) {
  auto read = ReadSystemFile(path);
  if (!read.ok()) return read.error();
  if (!read->has_value()) return Failed(path, ENOENT);
  return **std::move(read);
}

}  // namespace flowguard::stats
