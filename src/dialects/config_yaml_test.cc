// SPDX-License-Identifier: Apache-2.0
#include "dialects/config_yaml.h"

#include <chrono>
#include <string>

#include <gtest/gtest.h>

namespace flowguard::dialects {
namespace {

using namespace std::chrono_literals;

ServerConfig ConfigOf(std::string_view yaml) {
  const auto parsed = ParseConfig(yaml, "flowguard.yaml");
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return parsed.ok() ? parsed->config : ServerConfig{};
}

std::string ErrorOf(std::string_view yaml) {
  const auto parsed = ParseConfig(yaml, "flowguard.yaml");
  return parsed.ok() ? "ok" : parsed.error().message;
}

// A door that was not asked for stays shut.
TEST(ParseConfigTest, EmptyMapOpensNoDoor) {
  const ServerConfig config = ConfigOf("{}");

  EXPECT_FALSE(config.gateway.has_value());
  EXPECT_FALSE(config.decisions_listen.has_value());
  EXPECT_FALSE(config.admin_listen.has_value());
  EXPECT_FALSE(config.token_server.has_value());
  EXPECT_FALSE(config.store.has_value());
  EXPECT_FALSE(config.inline_rules.has_value());
  EXPECT_EQ(config.workers, 0);
  EXPECT_TRUE(config.statistics);
  EXPECT_TRUE(config.client_ip.trusted_proxies.empty());
}

TEST(ParseConfigTest, Doors) {
  const ServerConfig config = ConfigOf(
      "gateway: {listen: \"[::1]:0\", upstream: \"http://localhost\", workers: 3}\n"
      "decisions: {}\n"
      "admin: {listen: \":9000\"}\n");

  EXPECT_EQ(config.gateway->listen, "[::1]:0");
  EXPECT_EQ(config.gateway->upstreams, (std::vector<std::string>{"http://localhost"}));
  EXPECT_EQ(config.workers, 3);
  EXPECT_EQ(config.decisions_listen, "127.0.0.1:8081");
  EXPECT_EQ(config.admin_listen, ":9000");
}

TEST(ParseConfigTest, TheTokenServer) {
  const TokenServerConfig plain = ConfigOf("token_server: {}\n").token_server.value();
  EXPECT_EQ(plain.listen, "127.0.0.1:18730");
  EXPECT_TRUE(plain.allow.empty());
  EXPECT_EQ(plain.connections, 20'000);
  EXPECT_EQ(plain.questions_per_second, 1'000'000);

  const TokenServerConfig set = ConfigOf(
                                    "token_server: {listen: \":1\", allow: [10.0.0.0/8, \"::1\"], "
                                    "connections: 5, questions_per_second: 30_000}\n")
                                    .token_server.value();
  EXPECT_EQ(set.listen, ":1");
  EXPECT_EQ(set.allow, (std::vector<std::string>{"10.0.0.0/8", "::1"}));
  EXPECT_EQ(set.connections, 5);
  EXPECT_EQ(set.questions_per_second, 30'000);

  EXPECT_EQ(ErrorOf("token_server: {allow: [10.0.0.0/8, here]}\n").substr(0, 23),
            "flowguard.yaml:1:36: al");
  EXPECT_EQ(ErrorOf("token_server: {connections: 0}\n").substr(0, 31),
            "flowguard.yaml:1:29: connection");
}

TEST(ParseConfigTest, SettingsOfTheGateway) {
  const ServerConfig config = ConfigOf(
      "gateway: {upstream: [\"http://10.0.0.1:3000\", \"http://[fd00::1]:3000/\"], workers: auto}\n"
      "upstream: {fail_after: 5, retry_down_after: 1m, retries: 0}\n"
      "responses: {body: problem, ratelimit_headers: draft10, on_success: true, retry_jitter: 1s}\n"
      "timeouts: {header: 1s, body: 2s, idle: 3s, upstream_connect: 4s, upstream_response: 5s, "
      "drain: 0}\n"
      "path: {case_insensitive: true, merge_slashes: false, strip_trailing_slash: false, "
      "strip_semicolon_params: false, encoded_slash_separates: true, backslash_separates: true}\n"
      "exempt: [/healthz, \"GET /static/**\"]\n"
      "statistics: off\n"
      "preflight_exempt: false\n");

  EXPECT_EQ(config.gateway->listen, "0.0.0.0:8080");
  EXPECT_EQ(config.gateway->upstreams.size(), 2u);
  EXPECT_EQ(config.workers, 0);
  EXPECT_FALSE(config.statistics);
  EXPECT_EQ(config.upstream.fail_after, 5);
  EXPECT_EQ(config.upstream.retry_down_after, 1min);
  EXPECT_EQ(config.upstream.retries, 0);
  EXPECT_EQ(config.responses.body, RefuseBody::kProblem);
  EXPECT_EQ(config.responses.ratelimit_headers, RateLimitHeaders::kDraft10);
  EXPECT_TRUE(config.responses.on_success);
  EXPECT_EQ(config.responses.retry_jitter, 1s);
  EXPECT_EQ(config.timeouts.header, 1s);
  EXPECT_EQ(config.timeouts.body, 2s);
  EXPECT_EQ(config.timeouts.idle, 3s);
  EXPECT_EQ(config.timeouts.upstream_connect, 4s);
  EXPECT_EQ(config.timeouts.upstream_response, 5s);
  EXPECT_EQ(config.timeouts.drain, 0s);
  EXPECT_TRUE(config.path.case_insensitive);
  EXPECT_FALSE(config.path.merge_slashes);
  EXPECT_FALSE(config.path.strip_trailing_slash);
  EXPECT_FALSE(config.path.strip_semicolon_params);
  EXPECT_TRUE(config.path.encoded_slash_separates);
  EXPECT_TRUE(config.path.backslash_separates);
  EXPECT_EQ(config.exempt, (std::vector<std::string>{"/healthz", "GET /static/**"}));
  EXPECT_FALSE(config.preflight_exempt);
}

TEST(ParseConfigTest, ClientIpStoreAndCells) {
  const ServerConfig config = ConfigOf(
      "client_ip: {trusted_proxies: [10.0.0.0/8, \"fd00::/8\"], header: forwarded, ipv6_prefix: "
      "56}\n"
      "store: {redis: \"redis://127.0.0.1:6379\", deadline: 50ms, nodes: 3}\n"
      "cells: {capacity: 2_000_000, state_bytes: 1GiB}\n");

  EXPECT_EQ(config.client_ip.trusted_proxies, (std::vector<std::string>{"10.0.0.0/8", "fd00::/8"}));
  EXPECT_EQ(config.client_ip.header, ClientIpHeader::kForwarded);
  EXPECT_EQ(config.client_ip.ipv6_prefix, 56);
  EXPECT_EQ(config.store->redis, "redis://127.0.0.1:6379");
  EXPECT_EQ(config.store->deadline, 50ms);
  EXPECT_EQ(config.store->nodes, 3);
  EXPECT_EQ(config.cell_capacity, 2'000'000u);
  EXPECT_EQ(config.state_bytes, size_t{1} << 30);
}

TEST(ParseConfigTest, TokenServers) {
  EXPECT_FALSE(ConfigOf("admin: {}\n").cluster.has_value());
  const ServerConfig least = ConfigOf("cluster: {servers: 10.0.0.5}\n");
  EXPECT_EQ(least.cluster->servers, (std::vector<std::string>{"10.0.0.5"}));
  EXPECT_EQ(least.cluster->name_space, "default");
  EXPECT_EQ(least.cluster->timeout, 20ms);
  const ServerConfig all = ConfigOf(
      "cluster: {servers: [\"a:18730\", \"[::1]:1\"], namespace: shop, timeout: 50ms, nodes: 3}\n");
  EXPECT_EQ(all.cluster->servers, (std::vector<std::string>{"a:18730", "[::1]:1"}));
  EXPECT_EQ(all.cluster->name_space, "shop");
  EXPECT_EQ(all.cluster->timeout, 50ms);
  EXPECT_EQ(all.cluster->nodes, 3);
}

TEST(ParseConfigTest, TokenServersAreCheckedAtTheirPlace) {
  EXPECT_EQ(ErrorOf("cluster: {timeout: 5ms}\n"),
            "flowguard.yaml:1:10: cluster: servers is missing; write servers: "
            "[\"10.0.0.5:18730\"]");
  EXPECT_EQ(
      ErrorOf("cluster: {servers: [a, \"b:0\"]}\n"),
      "flowguard.yaml:1:24: servers: \"b:0\" is no token server; write host:port, or host for "
      "port 18730");
  EXPECT_EQ(ErrorOf("cluster: {servers: [a, a]}\n"),
            "flowguard.yaml:1:24: servers: \"a\" is there twice");
  EXPECT_EQ(ErrorOf("cluster: {servers: []}\n"),
            "flowguard.yaml:1:20: servers: found 0 token servers; allowed 1 to 16");
  std::string many = "a";
  for (int i = 1; i < 17; ++i)
    many += ", a" + std::to_string(i);
  EXPECT_EQ(ErrorOf("cluster: {servers: [" + many + "]}\n"),
            "flowguard.yaml:1:20: servers: found 17 token servers; allowed 1 to 16");
  EXPECT_EQ(ErrorOf("cluster: {servers: a, namespace: \"\"}\n"),
            "flowguard.yaml:1:34: namespace: found 0 bytes; a namespace has 1 to 128");
  EXPECT_EQ(ErrorOf("cluster: {servers: a, timeout: 0ms}\n").substr(0, 32),
            "flowguard.yaml:1:32: timeout: \"0");
  EXPECT_EQ(ErrorOf("cluster: {server: a}\n").find("did you mean \"servers\"") != std::string::npos,
            true);
}

TEST(ParseConfigTest, RulesByPathOrInPlace) {
  const ServerConfig by_path = ConfigOf("rules: conf/rules.yaml\n");
  const ServerConfig in_place = ConfigOf(
      "rules: [{name: a, limit: 5/s, by: [tenant]}]\n"
      "dimensions: {tenant: {header: x-tenant}}\n"
      "match: most_specific\n"
      "compat: sentinel\n");

  EXPECT_EQ(by_path.rules_path, "conf/rules.yaml");
  EXPECT_FALSE(by_path.inline_rules.has_value());
  ASSERT_TRUE(in_place.inline_rules.has_value());
  EXPECT_EQ(in_place.inline_rules->rules.at(0).rate.limit, 5);
  EXPECT_EQ(in_place.inline_rules->rules.at(0).origin, "flowguard.yaml:1:9");
  EXPECT_EQ(in_place.inline_rules->dimensions.at(0).source, "header:x-tenant");
  EXPECT_EQ(in_place.inline_rules->match, MatchMode::kMostSpecific);
  EXPECT_EQ(in_place.inline_rules->compat, Compat::kSentinel);
}

TEST(ParseConfigTest, AddressesAreCheckedAtTheirPlace) {
  EXPECT_EQ(ErrorOf("admin: {listen: \"127.0.0.1\"}\n"),
            "flowguard.yaml:1:17: listen: \"127.0.0.1\" is no address to listen at; write "
            "127.0.0.1:8080 or \"[::1]:8080\" (port 0 to 65535)");
  EXPECT_EQ(ErrorOf("admin: {listen: \"127.0.0.1:65536\"}\n").substr(0, 28),
            "flowguard.yaml:1:17: listen:");
  EXPECT_EQ(
      ErrorOf("gateway: {upstream: [\"http://a:1\", \"https://b:1\"]}\n"),
      "flowguard.yaml:1:36: upstream: \"https://b:1\": this version speaks http to upstreams; "
      "write http://host:port");
  EXPECT_EQ(ErrorOf("gateway: {upstream: \"http://a:1/path\"}\n"),
            "flowguard.yaml:1:21: upstream: \"http://a:1/path\" is no upstream; write "
            "http://host:port, without a path");
  EXPECT_EQ(ErrorOf("gateway: {upstream: \"http://a:0\"}\n").substr(0, 29),
            "flowguard.yaml:1:21: upstream");
  EXPECT_EQ(ErrorOf("gateway: {upstream: []}\n"),
            "flowguard.yaml:1:21: upstream: the list is empty; at least one address is needed");
  EXPECT_EQ(ErrorOf("gateway: {listen: \":80\"}\n"),
            "flowguard.yaml:1:10: gateway: upstream is missing; write upstream: "
            "[\"http://127.0.0.1:3000\"]");
  EXPECT_EQ(
      ErrorOf("store: {redis: \"http://x\"}\n"),
      "flowguard.yaml:1:16: redis: this is no Redis address; write redis://host:port, rediss:// "
      "for TLS, unix:///path, redis-sentinel://host,host/master or redis-cluster://host,host");
  EXPECT_EQ(ErrorOf("store: {}\n"),
            "flowguard.yaml:1:8: store: redis is missing; write redis: \"redis://127.0.0.1:6379\"");
  EXPECT_EQ(ErrorOf("client_ip: {trusted_proxies: [10.0.0.0/8, proxy.example]}\n"),
            "flowguard.yaml:1:43: trusted_proxies: \"proxy.example\" is no address or block; write "
            "10.0.0.7, 10.0.0.0/8, fd00::/8");
}

TEST(ParseConfigTest, WordsAndRangesAreChecked) {
  EXPECT_EQ(ErrorOf("gatway: {}\n").substr(0, 66),
            "flowguard.yaml:1:1: unknown field \"gatway\"; did you mean \"gateway\"");
  EXPECT_EQ(ErrorOf("gateway: {upstream: \"http://a\", workers: 0}\n"),
            "flowguard.yaml:1:42: workers: found \"0\"; allowed: auto, 1 to 1024");
  EXPECT_EQ(ErrorOf("client_ip: {header: x-forwarded-fro}\n"),
            "flowguard.yaml:1:21: header: unknown value \"x-forwarded-fro\"; did you mean "
            "\"x-forwarded-for\"? allowed: x-forwarded-for, forwarded, x-real-ip");
  EXPECT_EQ(ErrorOf("client_ip: {ipv6_prefix: 129}\n"),
            "flowguard.yaml:1:26: ipv6_prefix: \"129\" is too large; the maximum is 128");
  EXPECT_EQ(ErrorOf("timeouts: {idle: 0}\n"),
            "flowguard.yaml:1:18: idle: \"0\" is too short; the minimum is 1ms");
  EXPECT_EQ(
      ErrorOf("cells: {capacity: 98765432198765432198765}\n"),
      "flowguard.yaml:1:19: capacity: \"98765432198765432198765\" is too large; the maximum is "
      "4294967296");
  EXPECT_EQ(ErrorOf("statistics: yes\n"),
            "flowguard.yaml:1:13: statistics: unknown value \"yes\"; allowed: on, off");
  EXPECT_EQ(ErrorOf("cells: {state_bytes: 64MB}\n"),
            "flowguard.yaml:1:24: state_bytes: \"64MB\" is not a size; write bytes, or use KiB, "
            "MiB, GiB");
  EXPECT_EQ(ErrorOf("rules:\n"),
            "flowguard.yaml:1:1: rules: found nothing; the path of a rule file or a list of rules "
            "is allowed");
}

TEST(ParseConfigTest, DimensionsBesideARuleFileAreErrors) {
  EXPECT_EQ(ErrorOf("rules: rules.yaml\nmatch: all\n"),
            "flowguard.yaml:2:8: match: belongs into the rule file");
  EXPECT_EQ(ErrorOf("rules: rules.yaml\ncompat: sentinel\n"),
            "flowguard.yaml:2:9: compat: belongs into the rule file");
  EXPECT_EQ(ErrorOf("dimensions: {t: {header: x}}\n"),
            "flowguard.yaml:1:13: dimensions: goes with a list of rules, and there is none");
}

TEST(ParseConfigTest, FaultsOfRulesAndOfTheServerAreToldTogether) {
  EXPECT_EQ(
      ErrorOf("admin: {listen: x}\nrules: [{name: a, limit: 10/x}]\n"),
      "flowguard.yaml:1:17: listen: \"x\" is no address to listen at; write 127.0.0.1:8080 or "
      "\"[::1]:8080\" (port 0 to 65535)\n"
      "flowguard.yaml:2:29: limit: unknown unit \"x\"; use us, ms, s, min, h, d");
}

TEST(ParseConfigTest, WarnsOfWhatSwitchesTheRulesOff) {
  const auto warnings = [](std::string_view yaml) {
    return ParseConfig(yaml, "flowguard.yaml")->warnings;
  };
  for (const char* route : {"/**", "GET /**"}) {
    ASSERT_EQ(warnings("exempt: [\"" + std::string(route) + "\"]\n").size(), 1U) << route;
  }
  EXPECT_EQ(warnings("exempt: [/healthz, /**]\n").front(),
            "flowguard.yaml:1:20: exempt: \"/**\" is every path: no rule sees any request");
  for (const char* block : {"0.0.0.0/0", "::/0"}) {
    EXPECT_EQ(warnings("client_ip: {trusted_proxies: [\"" + std::string(block) + "\"]}\n").front(),
              "flowguard.yaml:1:31: trusted_proxies: \"" + std::string(block) +
                  "\" is everybody: every client names its own address");
  }
  EXPECT_TRUE(
      warnings("exempt: [/static/**]\nclient_ip: {trusted_proxies: [10.0.0.0/8]}\n").empty());
}

TEST(ParseConfigTest, EmptyFileIsAnError) {
  EXPECT_EQ(ErrorOf(""), "flowguard.yaml:1:1: the file is empty");
}

}  // namespace
}  // namespace flowguard::dialects
