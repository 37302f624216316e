// SPDX-License-Identifier: Apache-2.0
//
// Limits declared beside the code that they protect.
//
//   auto create_order = Protect(guard, "order:create")
//       .By([](const Order& o) { return Dimensions{{"tenant", o.tenant}}; })
//       .OnBlock([](const Decision& d, const Order&) { return Reply::Busy(d.retry_after); })
//       .Wrap([](const Order& o) { return orders.Create(o); });
//   Reply r = create_order(order);
//
// Works for any callable: request handlers, queue consumers, scheduled jobs.
// This file is a sketch until src/guard fills it in; see docs/decisions.
#pragma once
