// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "app/commands.h"
#include "quota/scripts/scripts.h"

namespace flowguard::app {

int Script() {
  const auto source = quota::scripts::kZsetLog.source;
  return std::fwrite(source.data(), 1, source.size(), stdout) == source.size() ? kExitOk
                                                                               : kExitFailure;
}

}  // namespace flowguard::app
