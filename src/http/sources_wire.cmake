# SPDX-License-Identifier: Apache-2.0
# Key resolution: who the client is, which path it asks for, which values it shows.
set(FG_HTTP_WIRE_SOURCES client_address.cc fields.cc ip_address.cc path.cc)

fg_test(http_ip_address_test SOURCES ip_address_test.cc DEPS fg_http)
fg_test(http_client_address_test SOURCES client_address_test.cc DEPS fg_http)
fg_test(http_path_test SOURCES path_test.cc DEPS fg_http)
fg_test(http_fields_test SOURCES fields_test.cc DEPS fg_http)
fg_fuzzer(http_keys_fuzz SOURCES keys_fuzz.cc DEPS fg_http)
