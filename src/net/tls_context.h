// SPDX-License-Identifier: Apache-2.0
//
// TLS for connections that we open: whom we trust, and who we are.
#pragma once

#include <memory>
#include <string>

#include "flowguard/result.h"

#include "net/socket.h"

namespace flowguard::net {

struct TlsOptions {
  std::string ca_file;           // PEM; empty: the system's own
  std::string certificate_file;  // PEM, ours; empty: none is shown
  std::string key_file;          // PEM, of that certificate
  std::string server_name;       // what the server must be called; empty: the host's name
  bool verify = true;            // no: anybody may be the server
};

class TlsStream;

// The files, read once.  TLS 1.2 and later.
// Threads: any, once created.
class TlsContext {
 public:
  // Errors: kInvalidArgument, naming the file and what is wrong with it.
  static Result<std::shared_ptr<const TlsContext>> Create(const TlsOptions& options);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // A stream over the connected, non-blocking socket `fd`, which must outlive it.
  // `host`: a name or a numeric address, which the server's certificate must hold unless
  // the options say otherwise.  Null: out of memory, or no such name can be.
  [[nodiscard]] std::unique_ptr<TlsStream> Open(int fd, const std::string& host) const;

 private:
  struct Impl;
  explicit TlsContext(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Bytes in and out of one TLS connection, with the results of net::Send and
// net::Receive.
//
// Threads: one owner.
class TlsStream {
 public:
  virtual ~TlsStream() = default;

  // Goes on with the handshake: kOk when it is done, kWouldBlock to be called again when
  // the socket is ready, kError with problem().
  virtual IoResult Handshake() noexcept = 0;
  virtual IoResult Receive(std::span<char> into) noexcept = 0;
  // After kWouldBlock the next call must begin with the same bytes; they may have moved.
  virtual IoResult Send(const char* data, size_t size) noexcept = 0;
  // Why the last call failed, for people.
  [[nodiscard]] virtual const std::string& problem() const noexcept = 0;
};

}  // namespace flowguard::net
