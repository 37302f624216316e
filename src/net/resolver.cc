// SPDX-License-Identifier: Apache-2.0
#include "net/resolver.h"

#include <utility>

#include <netdb.h>

namespace flowguard::net {

struct Resolver::Search {
  ~Search() {
    if (request.ar_result != nullptr) freeaddrinfo(request.ar_result);
  }
  std::string host;
  std::string port;
  addrinfo hints{};
  gaicb request{};
  bool refused = false;  // the C library did not even begin
};

Resolver::Resolver(Loop& loop, ResolverUser& user) noexcept
    : loop_(loop),
      user_(user),
      timer_([](void* self) noexcept { static_cast<Resolver*>(self)->Look(); }, this) {}

Resolver::~Resolver() {
  Cancel();
}

void Resolver::Cancel() noexcept {
  timer_.Disarm();
  if (search_ == nullptr) return;
  // What its thread works on just now is left to it: waiting could take seconds.
  if (!search_->refused && gai_cancel(&search_->request) == EAI_NOTCANCELED) {
    static_cast<void>(search_.release());
  }
  search_.reset();
}

void Resolver::Start(const std::string& host_port) {
  Cancel();
  search_ = std::make_unique<Search>();
  const size_t colon = host_port.rfind(':');
  search_->host = host_port.substr(0, colon);
  if (colon != std::string::npos) search_->port = host_port.substr(colon + 1);
  search_->hints.ai_socktype = SOCK_STREAM;
  search_->request.ar_name = search_->host.c_str();
  search_->request.ar_service = search_->port.c_str();
  search_->request.ar_request = &search_->hints;
  gaicb* list[] = {&search_->request};
  search_->refused = getaddrinfo_a(GAI_NOWAIT, list, 1, nullptr) != 0;
  loop_.ArmAfter(timer_, kLookEvery);
}

void Resolver::Look() noexcept {
  const int status = search_->refused ? EAI_SYSTEM : gai_error(&search_->request);
  if (status == EAI_INPROGRESS) {
    loop_.ArmAfter(timer_, kLookEvery);
    return;
  }
  const std::unique_ptr<Search> done = std::move(search_);
  std::vector<Address> found;
  for (const addrinfo* at = status == 0 ? done->request.ar_result : nullptr; at != nullptr;
       at = at->ai_next) {
    const Address address = Address::FromSockaddr(at->ai_addr, at->ai_addrlen);
    if (address.valid()) found.push_back(address);
  }
  user_.OnResolved(found);
}

}  // namespace flowguard::net
