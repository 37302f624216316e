// SPDX-License-Identifier: Apache-2.0
#include "serve/original_request.h"

#include <array>

#include "http/fields.h"

namespace flowguard::serve {
namespace {

// The lines that tell of the original request, each at most once.
struct Told {
  std::string_view original_uri;
  std::string_view original_method;
  std::string_view forwarded_uri;
  std::string_view forwarded_method;
  std::string_view envoy_path;
  bool repeated = false;

  void Note(std::string_view& field, std::string_view value) noexcept {
    if (field.data() != nullptr && field != value) repeated = true;
    field = value.data() == nullptr ? std::string_view("") : value;
  }
};

// All names begin with "x-"; lengths tell most others apart without a comparison.
void Note(const wire::Header& line, Told& told) noexcept {
  const std::string_view name = line.name;
  if (name.size() < 14 || (name[0] | 0x20) != 'x' || name[1] != '-') return;
  switch (name.size()) {
    case 14:
      if (wire::EqualsIgnoreCase(name, "x-original-uri")) told.Note(told.original_uri, line.value);
      return;
    case 15:
      if (wire::EqualsIgnoreCase(name, "x-forwarded-uri")) {
        told.Note(told.forwarded_uri, line.value);
      }
      return;
    case 17:
      if (wire::EqualsIgnoreCase(name, "x-original-method")) {
        told.Note(told.original_method, line.value);
      }
      return;
    case 18:
      if (wire::EqualsIgnoreCase(name, "x-forwarded-method")) {
        told.Note(told.forwarded_method, line.value);
      }
      return;
    case 21:
      if (wire::EqualsIgnoreCase(name, "x-envoy-original-path")) {
        told.Note(told.envoy_path, line.value);
      }
      return;
    default:
      return;
  }
}

// Our own target without the prefix.
std::string_view BehindPrefix(std::string_view target) noexcept {
  target.remove_prefix(kAuthPath.size());
  return target.starts_with('/') ? target : std::string_view("/");
}

// A line that tells something else than `own`.
bool Differs(std::string_view told, std::string_view own) noexcept {
  return told.data() != nullptr && told != own;
}

std::string_view OrElse(std::string_view value, std::string_view other) noexcept {
  return value.empty() ? other : value;
}

}  // namespace

bool IsAuthTarget(std::string_view target) noexcept {
  if (!target.starts_with(kAuthPath)) return false;
  return target.size() == kAuthPath.size() || target[kAuthPath.size()] == '/' ||
         target[kAuthPath.size()] == '?';
}

OriginalRequest FindOriginalRequest(const wire::RequestHead& head, bool peer_trusted) noexcept {
  OriginalRequest original{.method = head.method_text, .target = BehindPrefix(head.target)};
  if (!peer_trusted) return original;
  Told told;
  for (const wire::Header& line : head.headers.all())
    Note(line, told);

  if (head.target.substr(kAuthPath.size()).starts_with('/')) {
    original.conflicting = told.repeated || Differs(told.original_uri, original.target) ||
                           Differs(told.forwarded_uri, original.target) ||
                           Differs(told.envoy_path, original.target) ||
                           Differs(told.original_method, original.method) ||
                           Differs(told.forwarded_method, original.method);
    return original;
  }
  const int stories = (told.original_uri.data() != nullptr ? 1 : 0) +
                      (told.forwarded_uri.data() != nullptr ? 1 : 0) +
                      (told.envoy_path.data() != nullptr ? 1 : 0);
  original.conflicting = told.repeated || stories > 1;
  if (!told.original_uri.empty()) {
    original.target = told.original_uri;
    original.method = OrElse(told.original_method, original.method);
  } else if (!told.forwarded_uri.empty()) {
    original.target = told.forwarded_uri;
    original.method = OrElse(told.forwarded_method, original.method);
  } else if (!told.envoy_path.empty()) {
    original.target = told.envoy_path;
  }
  if (!wire::IsToken(original.method)) original.conflicting = true;
  return original;
}

int DenyStatus(std::string_view target) noexcept {
  if (target.size() <= kAuthPath.size() || target[kAuthPath.size()] != '?') return 0;
  std::array<char, 8> room;
  const http::FieldValue deny =
      http::FindQueryParameter(target.substr(kAuthPath.size() + 1), "deny", room);
  return deny.status == http::FieldStatus::kFound && deny.value == "403" ? 403 : 0;
}

}  // namespace flowguard::serve
