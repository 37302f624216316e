// SPDX-License-Identifier: Apache-2.0
#include "base/clock_source.h"

#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace flowguard::base {

bool ClockSourceIsTsc(const char* path, bool last) noexcept {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return last;
  char name[8] = {};
  const ssize_t size = read(fd, name, sizeof name - 1);
  close(fd);
  if (size <= 0) return last;
  return size >= 4 && std::strncmp(name, "tsc\n", 4) == 0;
}

}  // namespace flowguard::base
