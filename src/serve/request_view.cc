// SPDX-License-Identifier: Apache-2.0
#include "serve/request_view.h"

#include <algorithm>

#include "base/check.h"
#include "http/fields.h"
#include "rules/dimension.h"

namespace flowguard::serve {
namespace {

// An empty value that was there, as opposed to one that was not.
constexpr std::string_view kEmpty = "";

std::string_view Found(std::string_view value) noexcept {
  return value.data() == nullptr ? kEmpty : value;
}

std::span<char, http::kIpTextMax> RoomForIp(std::span<char> scratch) noexcept {
  FG_DCHECK(scratch.size() >= http::kIpTextMax);
  return scratch.first<http::kIpTextMax>();
}

}  // namespace

std::optional<http::IpAddress> ParseIpDimension(std::string_view value) noexcept {
  constexpr std::string_view kBlanks = " \t";
  const size_t begin = std::min(value.find_first_not_of(kBlanks), value.size());
  value.remove_prefix(begin);
  value = value.substr(0, value.find_last_not_of(kBlanks) + 1);
  return http::IpAddress::ParseWithPort(value);
}

bool IsMiscasedMethod(std::string_view method) noexcept {
  constexpr std::array<std::string_view, 9> kKnown = {
      "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"};
  return std::any_of(kKnown.begin(), kKnown.end(), [&](std::string_view known) {
    return method != known && wire::EqualsIgnoreCase(method, known);
  });
}

int HttpRequestView::Assign(const wire::RequestHead& head, const http::IpAddress& peer) noexcept {
  return Assign(head, peer, head.method_text, head.target);
}

int HttpRequestView::Assign(const wire::RequestHead& head, const http::IpAddress& peer,
                            std::string_view original_method,
                            std::string_view original_target) noexcept {
  head_ = &head;
  peer_ = peer;
  client_known_ = false;
  ambiguity_ = {};
  spilled_ = 0;
  cost = 0;
  wait_max = kNever;
  resource = {};
  method = original_method;
  const http::NormalisedPath normal =
      http::NormalisePath(original_target, options_->path, path_buffer_);
  path = normal.path;
  query_ = normal.query;
  as_it_came_ = normal.as_it_came;
  skip_limits = options_->exempt_preflights && preflight();
  switch (normal.status) {
    case http::PathStatus::kOk:
      return 0;
    case http::PathStatus::kTooLong:
      return 414;
    case http::PathStatus::kBad:
      break;
  }
  return 400;
}

const http::IpAddress& HttpRequestView::client() const noexcept {
  if (!client_known_) {
    client_ = http::ResolveClientAddress(peer_, head_->headers, options_->client).address;
    client_known_ = true;
  }
  return client_;
}

std::string_view HttpRequestView::Observed(const rules::Dimension& dimension,
                                           std::span<char> scratch) const noexcept {
  const std::string_view before = ambiguity_;
  const std::string_view value = Value(dimension, scratch);
  ambiguity_ = before;
  return value;
}

std::string_view HttpRequestView::Value(const rules::Dimension& dimension,
                                        std::span<char> scratch) const noexcept {
  switch (dimension.kind) {
    case rules::DimensionKind::kIp:
      return http::KeyText(client(), options_->ipv6_prefix, RoomForIp(scratch));
    case rules::DimensionKind::kMethod:
      return method;
    case rules::DimensionKind::kHeader:
      return Header(dimension.argument);
    case rules::DimensionKind::kCookie: {
      const http::FieldValue cookie = http::FindCookie(head_->headers, dimension.argument);
      if (cookie.status == http::FieldStatus::kFound) return Found(cookie.value);
      if (cookie.status != http::FieldStatus::kAbsent) {
        ambiguity_ = "a cookie that a rule reads is repeated with different values";
      }
      return {};
    }
    case rules::DimensionKind::kQuery:
    case rules::DimensionKind::kParam:
      return Query(dimension.argument, scratch);
    case rules::DimensionKind::kPath:  // the engine knows these
    case rules::DimensionKind::kResource:
    case rules::DimensionKind::kNamed:  // only an application can give these
      break;
  }
  return {};
}

std::string_view HttpRequestView::WholeAddress(const rules::Dimension& /*dimension*/,
                                               std::span<char> scratch) const noexcept {
  return client().Format(RoomForIp(scratch));
}

bool HttpRequestView::preflight() const noexcept {
  if (method != "OPTIONS" || !head_->headers.Has(wire::KnownHeader::kOrigin)) return false;
  if (head_->body != wire::BodyFraming::kNone) return false;  // no browser sends one
  return std::any_of(head_->headers.all().begin(), head_->headers.all().end(),
                     [](const wire::Header& line) {
                       return wire::EqualsIgnoreCase(line.name, "access-control-request-method");
                     });
}

std::string_view HttpRequestView::Header(std::string_view lower_name) const noexcept {
  // What the upstream is sent: an absolute target overrides the line.
  if (lower_name == "host") return head_->host;
  const http::FieldValue field =
      http::FindHeader(head_->headers, lower_name, http::RepeatedLines::kAmbiguous, {});
  if (field.status == http::FieldStatus::kFound) return Found(field.value);
  if (field.status != http::FieldStatus::kAbsent) {
    ambiguity_ = "a header that a rule reads is repeated with different values";
  }
  return {};
}

std::string_view HttpRequestView::Query(std::string_view name,
                                        std::span<char> scratch) const noexcept {
  http::FieldValue parameter = http::FindQueryParameter(query_, name, scratch);
  if (parameter.status == http::FieldStatus::kTooLong) {
    parameter = http::FindQueryParameter(query_, name, std::span<char>(spill_).subspan(spilled_));
    if (parameter.status == http::FieldStatus::kFound) spilled_ += parameter.value.size();
  }
  if (parameter.status == http::FieldStatus::kFound) return Found(parameter.value);
  if (parameter.status == http::FieldStatus::kTooLong) {
    ambiguity_ = "a query parameter that a rule reads is too long";
  } else if (parameter.status != http::FieldStatus::kAbsent) {
    ambiguity_ = "a query parameter that a rule reads is repeated with different values";
  }
  return {};
}

const DimensionValue* NamedRequestView::Find(const rules::Dimension& dimension) const noexcept {
  const auto found =
      std::find_if(dimensions_.begin(), dimensions_.end(), [&](const DimensionValue& given) {
        return given.name == dimension.name || rules::NamesSource(dimension, given.name);
      });
  return found != dimensions_.end() ? &*found : nullptr;
}

size_t NamedRequestView::ValueCount(const rules::Dimension& dimension) const noexcept {
  const DimensionValue* const first = Find(dimension);
  return first != nullptr ? engine::CountNamed(dimensions_, first->name) : 1;
}

std::string_view NamedRequestView::Value(const rules::Dimension& dimension,
                                         std::span<char> scratch) const noexcept {
  return ValueAt(dimension, 0, scratch);
}

std::string_view NamedRequestView::WholeAddress(const rules::Dimension& dimension,
                                                std::span<char> scratch) const noexcept {
  return WholeAddressAt(dimension, 0, scratch);
}

std::string_view NamedRequestView::ValueAt(const rules::Dimension& dimension, size_t place,
                                           std::span<char> scratch) const noexcept {
  const std::string_view given = WholeAddressAt(dimension, place, scratch);
  if (given.data() == nullptr || dimension.kind != rules::DimensionKind::kIp) return given;
  const auto address = http::IpAddress::Parse(given);
  return address ? http::KeyText(*address, ipv6_prefix_, RoomForIp(scratch)) : given;
}

std::string_view NamedRequestView::WholeAddressAt(const rules::Dimension& dimension, size_t place,
                                                  std::span<char> scratch) const noexcept {
  const DimensionValue* found = Find(dimension);
  if (found != nullptr && place > 0) found = engine::FindNamed(dimensions_, found->name, place);
  if (found == nullptr) return {};
  if (dimension.kind == rules::DimensionKind::kIp) {
    if (const auto address = ParseIpDimension(found->value)) {
      return address->Format(RoomForIp(scratch));
    }
  }
  return Found(found->value);
}

}  // namespace flowguard::serve
