# SPDX-License-Identifier: Apache-2.0
set(FG_SERVE_GATEWAY_SOURCES
  gateway.cc
  proxy_exchange.cc
  proxy_exchange_decision.cc
  proxy_exchange_response.cc
  upstream_pool.cc)

fg_test(gateway_test
  SOURCES gateway_breaker_test.cc gateway_cost_test.cc gateway_hostile_test.cc gateway_proxy_test.cc gateway_store_test.cc gateway_system_test.cc gateway_test.cc
  DEPS fg_serve fg_testing
  COST 15)
