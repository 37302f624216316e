// SPDX-License-Identifier: Apache-2.0
#include "breaker/call_window.h"

#include "breaker/call_window_impl.h"

namespace flowguard::breaker {

template class BasicCallWindow<ThreadSync>;

}  // namespace flowguard::breaker
