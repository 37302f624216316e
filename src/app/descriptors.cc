// SPDX-License-Identifier: Apache-2.0
#include "app/descriptors.h"

#include <algorithm>

#include <sys/resource.h>

#include "base/bounds.h"

namespace flowguard::app {

size_t RaiseDescriptorLimit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kDescriptorsReserved;
  rlimit raised = limit;
  raised.rlim_cur = raised.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return static_cast<size_t>(limit.rlim_cur);
}

size_t ConnectionsFor(size_t descriptors, size_t workers, size_t shares) noexcept {
  const size_t left = descriptors - std::min(descriptors, kDescriptorsReserved);
  return std::clamp(left / (workers * shares), kConnectionsMin, base::kConnectionsMax);
}

}  // namespace flowguard::app
