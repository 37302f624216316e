// SPDX-License-Identifier: Apache-2.0
//
// A parsed HTTP request as the engine sees it: normalised path, method, client
// address, and the values that keys are made of.
//
//   HttpRequestView view(options);           // one a worker, used again and again
//   if (int status = view.Assign(head, peer); status != 0) return Answer(status);
//   if (view.exempt()) return Pass();
//   Step step = engine.Begin(attempt, view, Mode::kEnter, now);
//   if (view.ambiguous()) { engine.Cancel(attempt, now); return Answer(400); }
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "flowguard/decision.h"

#include "base/bounds.h"
#include "engine/engine.h"
#include "engine/given_values.h"
#include "http/client_address.h"
#include "http/ip_address.h"
#include "http/path.h"
#include "serve/exempt_routes.h"
#include "wire/http1.h"

namespace flowguard::serve {

// How requests become keys; one for a server, shared by its workers.
struct RequestViewOptions {
  http::ClientAddressConfig client;
  int ipv6_prefix = 64;  // bits of an IPv6 address that make a client
  http::PathOptions path;
  ExemptRoutes exempt;  // routes that no rule sees
  // CORS preflights (OPTIONS with Origin and Access-Control-Request-Method, no body) count
  // against no limit: browsers send them by themselves, and a refused one breaks the page.
  // Access and concurrency rules see them.
  bool exempt_preflights = true;
};

// "get" is not GET, and escapes the rules on that, but many upstreams take it for GET: the
// answer is 400.
[[nodiscard]] bool IsMiscasedMethod(std::string_view method) noexcept;

// Memory:  32 KiB for the normalised path and long query values; keep one per worker.
// Threads: one owner.
class HttpRequestView final : public engine::RequestView {
 public:
  // `options` must outlive the view.
  explicit HttpRequestView(const RequestViewOptions& options) noexcept : options_(&options) {}

  // Points the view at a request.  `head` must stay as it is while the view is used.
  // Returns 0, or the status to answer: 400 for a path that cannot be read one way
  // only, 414 for one that is too long.
  // Cost: no allocation; the address and the values are read when a rule asks.
  [[nodiscard]] int Assign(const wire::RequestHead& head, const http::IpAddress& peer) noexcept;

  // The same for a request that another proxy received: `original_method` and
  // `original_target` are what that one was asked, `head` is its question to us.
  [[nodiscard]] int Assign(const wire::RequestHead& head, const http::IpAddress& peer,
                           std::string_view original_method,
                           std::string_view original_target) noexcept;

  // True when a rule asked for a header, cookie or parameter that has several values
  // which differ (the upstream might read another than we do), or for a value too long
  // to be decoded: the answer is 400, with the text of ambiguity().
  [[nodiscard]] bool ambiguous() const noexcept { return !ambiguity_.empty(); }
  // "a cookie that a rule reads is repeated with different values"; empty: none is.
  [[nodiscard]] std::string_view ambiguity() const noexcept { return ambiguity_; }

  // True when no rule is to see this request: it passes undecided.  Only a path that came
  // in its normal form can be exempt: the upstream gets the path as it came, and might take
  // another spelling for another path.
  [[nodiscard]] bool exempt() const noexcept {
    return as_it_came_ && options_->exempt.Contains(method, path);
  }

  // The client, behind trusted proxies.  Resolved at the first call.
  [[nodiscard]] const http::IpAddress& client() const noexcept;

  std::string_view Value(const rules::Dimension& dimension,
                         std::span<char> scratch) const noexcept override;
  // Ambiguous is a request by what rules read alone.
  [[nodiscard]] std::string_view Observed(const rules::Dimension& dimension,
                                          std::span<char> scratch) const noexcept override;
  std::string_view WholeAddress(const rules::Dimension& dimension,
                                std::span<char> scratch) const noexcept override;

 private:
  [[nodiscard]] bool preflight() const noexcept;
  std::string_view Header(std::string_view lower_name) const noexcept;
  std::string_view Query(std::string_view name, std::span<char> scratch) const noexcept;

  const RequestViewOptions* options_;
  const wire::RequestHead* head_ = nullptr;
  std::string_view query_;
  http::IpAddress peer_;
  bool as_it_came_ = false;
  mutable http::IpAddress client_;
  mutable bool client_known_ = false;
  mutable std::string_view ambiguity_;  // a literal
  mutable size_t spilled_ = 0;          // bytes of spill_ that hold values of this request
  std::array<char, base::kTargetBytesMax> path_buffer_;
  mutable std::array<char, base::kTargetBytesMax> spill_;
};

// The address that a caller names: blanks around it and a port are dropped, so that each
// client has one key.  Empty: it is no address.
[[nodiscard]] std::optional<http::IpAddress> ParseIpDimension(std::string_view value) noexcept;

// A request whose caller names the dimensions itself: the decision API, `explain`.
// Threads: one owner.
class NamedRequestView final : public engine::RequestView {
 public:
  // `dimensions` must outlive the view.  A dimension is found by the name that rules
  // use ("tenant"), or by its source ("header:x-tenant-id", "ip").  Addresses are
  // cut to `ipv6_prefix` bits as those of connections are.  A name that stands several
  // times is a list.
  NamedRequestView(std::span<const DimensionValue> dimensions, int ipv6_prefix) noexcept
      : dimensions_(dimensions), ipv6_prefix_(ipv6_prefix) {
    lists = engine::MayRepeatNames(dimensions);
  }

  [[nodiscard]] std::string_view Value(const rules::Dimension& dimension,
                                       std::span<char> scratch) const noexcept override;
  [[nodiscard]] std::string_view WholeAddress(const rules::Dimension& dimension,
                                              std::span<char> scratch) const noexcept override;
  [[nodiscard]] size_t ValueCount(const rules::Dimension& dimension) const noexcept override;
  [[nodiscard]] std::string_view ValueAt(const rules::Dimension& dimension, size_t place,
                                         std::span<char> scratch) const noexcept override;
  [[nodiscard]] std::string_view WholeAddressAt(const rules::Dimension& dimension, size_t place,
                                                std::span<char> scratch) const noexcept override;

 private:
  // The first value of the dimension; null: it has none.
  [[nodiscard]] const DimensionValue* Find(const rules::Dimension& dimension) const noexcept;

  std::span<const DimensionValue> dimensions_;
  int ipv6_prefix_;
};

}  // namespace flowguard::serve
