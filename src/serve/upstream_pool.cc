// SPDX-License-Identifier: Apache-2.0
#include "serve/upstream_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace flowguard::serve {

UpstreamConnection::UpstreamConnection(UpstreamPool& pool) noexcept
    : pool_(pool),
      timer_([](void* self) noexcept { static_cast<UpstreamConnection*>(self)->OnTimer(); }, this) {
}

void UpstreamConnection::ArmTimeout(Duration after) noexcept {
  pool_.loop_.ArmAfter(timer_, after);
}

void UpstreamConnection::OnReady(net::Ready ready) noexcept {
  if (!fd_) return;
  readable_ = readable_ || ready.readable;
  peer_closed_ = peer_closed_ || ready.peer_closed;
  if (user_ != nullptr) return user_->OnUpstreamReady(ready);
  // Nobody asked anything: whatever comes on an idle connection ends it.
  if (ready.readable) pool_.DropIdle(*this);
}

void UpstreamConnection::OnRetired() noexcept {
  pool_.free_.push_back(this);
}

void UpstreamConnection::OnTimer() noexcept {
  if (user_ != nullptr) return user_->OnUpstreamTimeout();
  pool_.DropIdle(*this);
}

UpstreamPool::UpstreamPool(net::Loop& loop, std::vector<net::Address> addresses,
                           const UpstreamOptions& options)
    : loop_(loop), options_(options) {
  FG_CHECK(!addresses.empty() && addresses.size() <= base::kUpstreamAddressesMax);
  for (const net::Address& address : addresses) {
    endpoints_.emplace_back();
    endpoints_.back().address = address;
    endpoints_.back().idle.reserve(options_.idle_max);
  }
}

UpstreamPool::~UpstreamPool() {
  for (const std::unique_ptr<UpstreamConnection>& connection : connections_) {
    loop_.Forget(*connection);
  }
}

uint32_t UpstreamPool::Choose(uint64_t avoid) noexcept {
  const auto count = static_cast<uint32_t>(endpoints_.size());
  if (count == 1) return 0;
  uint32_t best = count;
  int best_rank = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t at = (next_ + i) % count;
    const bool tried = (avoid >> at & 1) != 0;
    const int rank = (tried ? 2 : 0) + (ejected(at) ? 1 : 0);
    if (best == count || rank < best_rank ||
        (rank == best_rank && endpoints_[at].in_flight < endpoints_[best].in_flight)) {
      best = at;
      best_rank = rank;
    }
  }
  next_ = (best + 1) % count;
  return best;
}

UpstreamPool::Acquired UpstreamPool::Acquire(UpstreamUser& user, uint64_t avoid,
                                             bool fresh) noexcept {
  const uint32_t index = Choose(avoid);
  Endpoint& endpoint = endpoints_[index];
  while (!fresh && !endpoint.idle.empty()) {
    UpstreamConnection* const kept = endpoint.idle.back();
    endpoint.idle.pop_back();
    // What is here already would be taken for the answer to the request to come.
    if (!net::IsQuiet(kept->fd())) {
      Close(*kept);
      continue;
    }
    kept->timer_.Disarm();
    kept->user_ = &user;
    kept->reused_ = true;
    ++endpoint.in_flight;
    return {.connection = kept, .endpoint = index};
  }
  auto fault = net::ConnectFault::kAddress;
  net::Fd fd = net::Connect(endpoint.address, fault);
  if (!fd) return {.endpoint = index, .shortage = fault == net::ConnectFault::kShortage};
  if (free_.empty()) {
    connections_.push_back(std::make_unique<UpstreamConnection>(*this));
    free_.push_back(connections_.back().get());
  }
  UpstreamConnection* const connection = free_.back();
  if (!loop_.Watch(fd.get(), *connection)) return {.endpoint = index, .shortage = true};
  free_.pop_back();
  connection->fd_ = std::move(fd);
  connection->user_ = &user;
  connection->endpoint_ = index;
  connection->reused_ = connection->connected_ = false;
  connection->readable_ = connection->peer_closed_ = false;
  connection->ArmTimeout(options_.connect_timeout);
  ++endpoint.in_flight;
  return {.connection = connection, .endpoint = index};
}

void UpstreamPool::Release(UpstreamConnection& connection, bool reusable) noexcept {
  Endpoint& endpoint = endpoints_[connection.endpoint_];
  --endpoint.in_flight;
  connection.user_ = nullptr;
  if (!reusable || connection.peer_closed_ || endpoint.idle.size() >= options_.idle_max) {
    return Close(connection);
  }
  connection.ArmTimeout(options_.idle_timeout);
  endpoint.idle.push_back(&connection);
}

void UpstreamPool::ReportFailure(uint32_t index) noexcept {
  Endpoint& endpoint = endpoints_[index];
  ++endpoint.failures;
  if (endpoint.failures < options_.fail_after || endpoints_.size() == 1) return;
  endpoint.ejected_until = loop_.Now() + options_.retry_down_after;
}

bool UpstreamPool::ejected(uint32_t endpoint) const noexcept {
  return endpoints_[endpoint].failures >= options_.fail_after &&
         endpoints_[endpoint].ejected_until > loop_.Now();
}

void UpstreamPool::DropIdle(UpstreamConnection& connection) noexcept {
  std::erase(endpoints_[connection.endpoint_].idle, &connection);
  Close(connection);
}

void UpstreamPool::Close(UpstreamConnection& connection) noexcept {
  connection.timer_.Disarm();
  connection.fd_.Close();
  loop_.Retire(connection);
}

}  // namespace flowguard::serve
