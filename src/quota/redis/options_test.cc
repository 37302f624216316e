// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/options.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::quota::redis {
namespace {

Options Parsed(std::string_view url) {
  Result<Options> options = ParseUrl(url);
  EXPECT_TRUE(options.ok()) << url << ": " << options.error().message;
  return options.ok() ? *options : Options();
}

std::string Problem(std::string_view url) {
  const Result<Options> options = ParseUrl(url);
  EXPECT_FALSE(options.ok()) << url;
  return options.ok() ? "" : options.error().message;
}

TEST(RedisUrl, OneServer) {
  const Options plain = Parsed("redis://localhost");
  EXPECT_EQ(plain.topology, Topology::kSingle);
  EXPECT_EQ(plain.hosts, std::vector<std::string>{"localhost:6379"});
  EXPECT_FALSE(plain.tls);
  EXPECT_EQ(plain.protocol, 3);

  const Options full = Parsed("rediss://me:p%40ss@[::1]:7000/3?protocol=2&tls_ca=/ca.pem");
  EXPECT_EQ(full.user, "me");
  EXPECT_EQ(full.password, "p@ss");
  EXPECT_EQ(full.hosts, std::vector<std::string>{"[::1]:7000"});
  EXPECT_EQ(full.database, 3);
  EXPECT_EQ(full.protocol, 2);
  EXPECT_TRUE(full.tls);
  EXPECT_TRUE(full.tls_options.verify);
  EXPECT_EQ(full.tls_options.ca_file, "/ca.pem");
  EXPECT_EQ(Parsed("redis://[::1]").hosts, std::vector<std::string>{"[::1]:6379"});
  EXPECT_EQ(Parsed("redis://:only@host").password, "only");
}

TEST(RedisUrl, UnixSocket) {
  const Options options = Parsed("unix:///run/redis.sock?db=2&password=x");
  EXPECT_EQ(options.hosts, std::vector<std::string>{"/run/redis.sock"});
  EXPECT_EQ(options.database, 2);
  EXPECT_EQ(options.password, "x");
}

TEST(RedisUrl, SentinelsAndClusters) {
  const Options sentinel = Parsed("redis-sentinel://:pw@a:1,b:2/mymaster/4?sentinel_password=q");
  EXPECT_EQ(sentinel.topology, Topology::kSentinel);
  EXPECT_EQ(sentinel.hosts, (std::vector<std::string>{"a:1", "b:2"}));
  EXPECT_EQ(sentinel.master_name, "mymaster");
  EXPECT_EQ(sentinel.database, 4);
  EXPECT_EQ(sentinel.sentinel_password, "q");
  const Options cluster = Parsed("rediss-cluster://a,b:2?connect_timeout=250ms&connections=4");
  EXPECT_EQ(cluster.topology, Topology::kCluster);
  EXPECT_TRUE(cluster.tls);
  EXPECT_EQ(cluster.hosts, (std::vector<std::string>{"a:6379", "b:2"}));
  EXPECT_EQ(cluster.connect_timeout, std::chrono::milliseconds(250));
  EXPECT_EQ(cluster.connections, 4);
}

TEST(RedisUrl, FaultsSayWhatIsAllowed) {
  EXPECT_NE(Problem("http://a").find("allowed are redis://"), std::string::npos);
  EXPECT_NE(Problem("redis").find("allowed are redis://"), std::string::npos);
  EXPECT_NE(Problem("redi://a").find("allowed are redis://"), std::string::npos);
  EXPECT_NE(Problem("").find("allowed are redis://"), std::string::npos);
  EXPECT_NE(Problem("redis://").find("no host"), std::string::npos);
  EXPECT_NE(Problem("redis://:6379").find("no host"), std::string::npos);
  EXPECT_NE(Problem("redis://a:70000").find("1 to 65535"), std::string::npos);
  EXPECT_NE(Problem("redis://a,b").find("redis-cluster://"), std::string::npos);
  EXPECT_NE(Problem("redis://a/x").find("database=x"), std::string::npos);
  EXPECT_NE(Problem("redis-cluster://a/1").find("database 0"), std::string::npos);
  EXPECT_NE(Problem("redis-sentinel://a:1").find("master"), std::string::npos);
  EXPECT_NE(Problem("unix://relative").find("/path"), std::string::npos);
  EXPECT_NE(Problem("redis://a?protocol=4").find("2 to 3"), std::string::npos);
  EXPECT_NE(Problem("redis://a?connect_timeout=5").find("500ms"), std::string::npos);
  EXPECT_NE(Problem("redis://a?connect_timeout=61s").find("60s"), std::string::npos);
  EXPECT_NE(Problem("redis://a?conect_timeout=5s").find("unknown option"), std::string::npos);
  EXPECT_NE(Problem("redis://a?tls_ca=x").find("rediss://"), std::string::npos);
  EXPECT_NE(Problem("rediss://a?tls_cert=x").find("go together"), std::string::npos);
  EXPECT_NE(Problem("rediss://a?tls_verify=maybe").find("yes and no"), std::string::npos);
  EXPECT_NE(Problem("redis://user@a").find("user:password"), std::string::npos);
}

TEST(RedisUrl, SecretsStandInNoMessage) {
  const std::vector<std::string> urls{
      "redis://me:s3cret@",           "redis://me:s3cret@a:x",      "redis://me:s3cret%@a",
      "redis://me:s3cret@a/x",        "redis://me:s3cr@et@a:1:",    "redis://s3cret@a",
      "redis://a?password=s3cret%zz", "http://me:s3cret@a",         "redis://me:1?s3cret@a",
      "redis://a?user=s3cret",        "redis://:s3cret@a?x=s3cret", "redis://me:s3cret?@a",
  };
  for (const std::string& url : urls) {
    const std::string problem = Problem(url);
    EXPECT_EQ(problem.find("s3cret"), std::string::npos) << problem;
    EXPECT_EQ(problem.find("s3cr"), std::string::npos) << problem;
  }
}

}  // namespace
}  // namespace flowguard::quota::redis
