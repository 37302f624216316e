// SPDX-License-Identifier: Apache-2.0
//
// TLS with a real server, certificates made for the test.
#include <cstdlib>
#include <filesystem>
#include <string>

#include "quota/redis/real_server_test.h"

namespace flowguard::quota::redis {
namespace {

using testing::RedisServer;

// An authority, and two certificates of it.
class Certificates {
 public:
  Certificates() {
    std::string name = (std::filesystem::temp_directory_path() / "fg-tls-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    OpenSsl("req -x509 -subj /CN=authority -keyout ca.key -out ca.pem -days 2");
    OpenSsl("req -x509 -subj /CN=stranger -keyout stranger.key -out stranger.pem -days 2");
    Sign("server", "subjectAltName=IP:127.0.0.1,DNS:cells.example");
    Sign("client", "subjectAltName=DNS:client.example");
  }
  ~Certificates() { std::filesystem::remove_all(directory_); }
  [[nodiscard]] std::string Path(const std::string& file) const { return directory_ + "/" + file; }

 private:
  void OpenSsl(const std::string& words) const {
    const std::string key = " -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    const std::string command = "cd " + directory_ + " && openssl " + words +
                                (words.substr(0, 3) == "req" ? key : "") + " 2>>log";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }
  void Sign(const std::string& who, const std::string& names) const {
    OpenSsl("req -subj /CN=" + who + " -keyout " + who + ".key -out " + who + ".csr -addext " +
            names);
    OpenSsl("x509 -req -in " + who + ".csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 " +
            "-copy_extensions copy -out " + who + ".pem");
  }
  std::string directory_;
};

struct TlsServerTest : RealServerTest {
  RedisServer::Setup ServerSetup(const std::string& clients) {
    RedisServer::Setup setup;
    setup.plain = false;
    setup.arguments = {"--tls-port",         std::to_string(port),
                       "--tls-cert-file",    files.Path("server.pem"),
                       "--tls-key-file",     files.Path("server.key"),
                       "--tls-ca-cert-file", files.Path("ca.pem"),
                       "--tls-auth-clients", clients};
    return setup;
  }
  [[nodiscard]] std::string Url(const std::string& options) const {
    return "rediss://127.0.0.1:" + std::to_string(port) + "?" + options;
  }
  [[nodiscard]] std::string Ca(const std::string& file) const {
    return "tls_ca=" + files.Path(file);
  }
  bool Connects() {
    EXPECT_TRUE(WaitUntil(
        [&] { return metrics->connected.value() != 0 || metrics->connect_failures.value() != 0; }));
    return metrics->connected.value() != 0;
  }

  Certificates files;
  uint16_t port = testing::FreePort();
};

TEST_F(TlsServerTest, TheServersCertificateIsChecked) {
  RedisServer server(ServerSetup("no"));
  Make(Url(Ca("ca.pem")));
  EXPECT_TRUE(Connects());
  // More than a record of TLS, in both directions.
  const std::string large(100'000, 'x');
  EXPECT_EQ(Ask({"SET", "large", large}), "'OK'");
  EXPECT_EQ(Ask({"GET", "large"}), "'" + large + "'");
  for (uint64_t i = 0; i < 1000; ++i)
    Run(i, std::chrono::seconds(10), "k" + std::to_string(i));
  ASSERT_TRUE(WaitUntil([&] { return log.Count(Failure::kNone) == 1002; }));

  Make(Url(Ca("ca.pem") + "&tls_sni=cells.example"));
  EXPECT_TRUE(Connects());
  Make(Url(Ca("ca.pem") + "&tls_sni=other.example"));
  EXPECT_FALSE(Connects()) << "another name";
  Make(Url(Ca("stranger.pem")));
  EXPECT_FALSE(Connects()) << "another authority";
  Make(Url("tls_verify=yes"));
  EXPECT_FALSE(Connects()) << "the system's authorities";
  Make(Url("tls_verify=no"));
  EXPECT_TRUE(Connects());
}

TEST_F(TlsServerTest, TheServerMayAskForOurs) {
  RedisServer server(ServerSetup("yes"));
  const std::string ours =
      "&tls_cert=" + files.Path("client.pem") + "&tls_key=" + files.Path("client.key");
  Make(Url(Ca("ca.pem") + ours));
  EXPECT_TRUE(Connects());
  EXPECT_EQ(Ask({"PING"}), "'PONG'");
  Make(Url(Ca("ca.pem")));
  EXPECT_FALSE(Connects());
}

TEST_F(TlsServerTest, AServerWithoutTlsIsNoServer) {
  RedisServer server;
  Make("rediss://" + server.endpoint() + "?tls_verify=no&connect_timeout=200ms");
  EXPECT_FALSE(Connects());
}

TEST_F(TlsServerTest, IsBackAfterARestart) {
  RedisServer server(ServerSetup("no"));
  Make(Url(Ca("ca.pem")));
  ASSERT_TRUE(WaitUntil([&] { return Works(); }));
  for (uint64_t i = 0; i < 1000; ++i)
    Run(i, std::chrono::seconds(10), "k" + std::to_string(i));
  server.Kill();
  ASSERT_TRUE(WaitUntil([&] { return log.Has(999); }));
  server.Start();
  ASSERT_TRUE(WaitUntil([&] { return Works(); }));
}

TEST_F(TlsServerTest, FilesThatAreWrongAreNamed) {
  for (const std::string& options :
       {Ca("none.pem"), Ca("ca.pem") + "&tls_cert=" + files.Path("none.pem") + "&tls_key=x",
        "tls_cert=" + files.Path("client.pem") + "&tls_key=" + files.Path("none.pem"),
        "tls_cert=" + files.Path("client.pem") + "&tls_key=" + files.Path("server.key")}) {
    const Options parsed = *ParseUrl(Url(options));
    Metrics unused;
    const auto made = MakeCommander(*loop, parsed, unused, 1);
    ASSERT_FALSE(made.ok()) << options;
    EXPECT_NE(made.error().message.find(".pem"), std::string::npos) << made.error().message;
  }
}

}  // namespace
}  // namespace flowguard::quota::redis
