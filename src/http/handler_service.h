// SPDX-License-Identifier: Apache-2.0
//
// Puts a Handler behind a server: gathers small bodies and hands over whole
// requests.  A request that came in one piece costs no copy and no allocation.
//
// Threads: the loop's.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/handler.h"
#include "http/service.h"
#include "wire/http1.h"
#include "wire/http1_chunked.h"

namespace flowguard::http {

class HandlerService final : public Service {
 public:
  // Bodies above `body_bytes_max` are answered 413.  `handler` must outlive this.
  HandlerService(Handler& handler, size_t body_bytes_max);
  ~HandlerService() override;

  void OnRequest(ServerSession& session, const wire::RequestHead& head) noexcept override;
  size_t OnBody(ServerSession& session, std::string_view raw, bool last) noexcept override;
  void OnGone(ServerSession& session) noexcept override;
  [[nodiscard]] bool Waits(const ServerSession& session) const noexcept override;

 private:
  // A request whose body arrives in pieces.
  struct Gathering {
    std::string raw_head;
    std::string body;
    wire::ChunkedDecoder chunked;
    bool is_chunked = false;
  };

  void Call(ServerSession& session, const wire::RequestHead& head, std::string_view body) noexcept;
  Gathering* Borrow();
  void Return(Gathering* gathering) noexcept;

  Handler& handler_;
  const size_t body_bytes_max_;
  std::vector<std::unique_ptr<Gathering>> free_;
  std::unique_ptr<wire::RequestHead> head_;  // a gathered head, parsed again
};

}  // namespace flowguard::http
