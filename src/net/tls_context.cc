// SPDX-License-Identifier: Apache-2.0
#include "net/tls_context.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

namespace flowguard::net {
namespace {

// What OpenSSL says of the last failure of this thread.
std::string Reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* const text = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return text == nullptr ? "unknown failure" : text;
}

// OpenSSL's own socket BIO writes without MSG_NOSIGNAL: a closed peer would kill the
// program.
int BioWrite(BIO* bio, const char* data, int size) {
  int fd = -1;
  BIO_get_fd(bio, &fd);
  BIO_clear_retry_flags(bio);
  ssize_t sent = 0;
  do {
    sent = send(fd, data, static_cast<size_t>(size), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

struct MethodFree {
  void operator()(BIO_METHOD* method) const noexcept { BIO_meth_free(method); }
};
struct ContextFree {
  void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
};
struct SslFree {
  void operator()(SSL* ssl) const noexcept { SSL_free(ssl); }
};

// The socket BIO with the write replaced.  Null: out of memory.
std::unique_ptr<BIO_METHOD, MethodFree> MakeMethod() {
  const BIO_METHOD* const base = BIO_s_socket();
  std::unique_ptr<BIO_METHOD, MethodFree> method(
      BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR, "socket"));
  if (!method) return method;
  BIO_meth_set_write(method.get(), BioWrite);
  BIO_meth_set_read(method.get(), BIO_meth_get_read(base));
  BIO_meth_set_ctrl(method.get(), BIO_meth_get_ctrl(base));
  BIO_meth_set_create(method.get(), BIO_meth_get_create(base));
  BIO_meth_set_destroy(method.get(), BIO_meth_get_destroy(base));
  return method;
}

class Stream final : public TlsStream {
 public:
  explicit Stream(std::unique_ptr<SSL, SslFree> ssl) : ssl_(std::move(ssl)) {}

  IoResult Handshake() noexcept override {
    ERR_clear_error();
    return Told(SSL_connect(ssl_.get()));
  }
  IoResult Receive(std::span<char> into) noexcept override {
    ERR_clear_error();
    return Told(SSL_read(ssl_.get(), into.data(), Clip(into.size())));
  }
  IoResult Send(const char* data, size_t size) noexcept override {
    ERR_clear_error();
    return Told(SSL_write(ssl_.get(), data, Clip(size)));
  }
  [[nodiscard]] const std::string& problem() const noexcept override { return problem_; }

 private:
  static int Clip(size_t size) noexcept {
    return static_cast<int>(std::min<size_t>(size, INT_MAX));
  }

  IoResult Told(int result) noexcept {
    if (result > 0) return {IoStatus::kOk, static_cast<size_t>(result)};
    const int system_error = errno;
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        return {IoStatus::kWouldBlock, 0};
      case SSL_ERROR_ZERO_RETURN:
        return {IoStatus::kEnd, 0};
      case SSL_ERROR_SYSCALL:
        problem_ = system_error == 0 ? "the connection ended within TLS"
                                     : "the connection broke within TLS";
        break;
      default: {
        const long verdict = SSL_get_verify_result(ssl_.get());
        problem_ = Reason();
        if (verdict != X509_V_OK)
          problem_ += std::string(": ") + X509_verify_cert_error_string(verdict);
      }
    }
    ERR_clear_error();
    return {IoStatus::kError, 0};
  }

  std::unique_ptr<SSL, SslFree> ssl_;
  std::string problem_;
};

}  // namespace

struct TlsContext::Impl {
  TlsOptions options;
  std::unique_ptr<BIO_METHOD, MethodFree> method;
  std::unique_ptr<SSL_CTX, ContextFree> context;
};

TlsContext::TlsContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<const TlsContext>> TlsContext::Create(const TlsOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->method = MakeMethod();
  impl->context.reset(SSL_CTX_new(TLS_client_method()));
  SSL_CTX* const context = impl->context.get();
  if (!impl->method || context == nullptr)
    return Error{ErrorCode::kResourceExhausted, "TLS: " + Reason()};
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_verify(context, options.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (options.ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_locations(context, options.ca_file.c_str(), nullptr) != 1) {
    return Error::InvalidArgument("TLS authorities \"" + options.ca_file + "\": " + Reason());
  }
  if (!options.certificate_file.empty()) {
    if (SSL_CTX_use_certificate_chain_file(context, options.certificate_file.c_str()) != 1)
      return Error::InvalidArgument("TLS certificate \"" + options.certificate_file +
                                    "\": " + Reason());
    if (SSL_CTX_use_PrivateKey_file(context, options.key_file.c_str(), SSL_FILETYPE_PEM) != 1)
      return Error::InvalidArgument("TLS key \"" + options.key_file + "\" of \"" +
                                    options.certificate_file + "\": " + Reason());
  }
  return std::shared_ptr<const TlsContext>(new TlsContext(std::move(impl)));
}

std::unique_ptr<TlsStream> TlsContext::Open(int fd, const std::string& host) const {
  ERR_clear_error();
  std::unique_ptr<SSL, SslFree> ssl(SSL_new(impl_->context.get()));
  BIO* const bio = BIO_new(impl_->method.get());
  if (!ssl || bio == nullptr) {
    BIO_free(bio);
    return nullptr;
  }
  BIO_set_fd(bio, fd, BIO_NOCLOSE);
  SSL_set_bio(ssl.get(), bio, bio);
  const std::string& name = impl_->options.server_name.empty() ? host : impl_->options.server_name;
  in6_addr numeric{};
  const bool is_address = inet_pton(AF_INET, name.c_str(), &numeric) == 1 ||
                          inet_pton(AF_INET6, name.c_str(), &numeric) == 1;
  X509_VERIFY_PARAM* const parameters = SSL_get0_param(ssl.get());
  if (is_address) {
    if (X509_VERIFY_PARAM_set1_ip_asc(parameters, name.c_str()) != 1) return nullptr;
  } else {
    // SSL_set_tlsext_host_name, without its cast.
    if (SSL_ctrl(ssl.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                 const_cast<char*>(name.c_str())) != 1)
      return nullptr;
    X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_host(parameters, name.c_str(), 0) != 1) return nullptr;
  }
  return std::make_unique<Stream>(std::move(ssl));
}

}  // namespace flowguard::net
