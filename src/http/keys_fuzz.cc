// SPDX-License-Identifier: Apache-2.0
//
// Any target normalises to a fixed point without "//" and dot segments, be its escaped
// separators decoded or not; any address text means the same address after it has been
// written out again.
#include <array>
#include <cstdint>
#include <string>

#include "base/bounds.h"
#include "base/check.h"
#include "http/client_address.h"
#include "http/fields.h"
#include "http/path.h"

namespace flowguard::http {
namespace {

PathOptions OptionsFrom(uint8_t bits) {
  PathOptions options;
  options.merge_slashes = (bits & 1) == 0;
  options.strip_trailing_slash = (bits & 2) == 0;
  options.drop_parameters = (bits & 4) == 0;
  options.fold_case = (bits & 8) != 0;
  options.encoded_slash_separates = (bits & 16) != 0;
  options.backslash = (bits & 32) != 0 ? Backslash::kSlash : Backslash::kReject;
  return options;
}

void CheckPath(std::string_view target, const PathOptions& options) {
  static std::array<char, 3 * base::kTargetBytesMax> once_buffer;
  static std::array<char, 3 * base::kTargetBytesMax> twice_buffer;
  const NormalisedPath once = NormalisePath(target, options, once_buffer);
  if (once.status != PathStatus::kOk || once.path == "*") return;
  const NormalisedPath twice = NormalisePath(once.path, options, twice_buffer);
  FG_CHECK(twice.status == PathStatus::kOk);
  FG_CHECK(twice.path == once.path);
  FG_CHECK(once.path.front() == '/');
  const std::string closed = std::string(once.path) + "/";
  FG_CHECK(closed.find("/../") == std::string::npos);
  FG_CHECK(closed.find("/./") == std::string::npos);
  // Nor where an upstream decodes separators that are data here.
  std::string decoded = closed;
  for (size_t i = 0; i + 3 <= decoded.size(); ++i) {
    const std::string_view here = std::string_view(decoded).substr(i, 3);
    if (here == "%2F" || here == "%5C") decoded.replace(i, 3, "/");
  }
  if (decoded != closed) {
    FG_CHECK(decoded.find("/../") == std::string::npos);
    FG_CHECK(decoded.find("/./") == std::string::npos);
  }
  if (options.merge_slashes) FG_CHECK(once.path.find("//") == std::string_view::npos);
}

void CheckAddress(std::string_view text) {
  const auto address = IpAddress::ParseWithPort(text);
  if (!address) return;
  std::array<char, kIpTextMax> out;
  const auto again = IpAddress::Parse(address->Format(out));
  FG_CHECK(again.has_value());
  FG_CHECK(*again == *address);
  for (const int prefix : {1, 48, 64, 127, 128})
    FG_CHECK(KeyText(*address, prefix, out).size() <= kIpTextMax);
}

void CheckHeaders(std::string_view lines) {
  static wire::RequestHead head;
  const std::string bytes = "GET / HTTP/1.1\r\nhost: x\r\n" + std::string(lines) + "\r\n\r\n";
  if (wire::ParseRequestHead(bytes, 0, head) != wire::ParseStatus::kDone) return;
  static const IpBlocks trusted =
      *IpBlocks::Create(std::array<std::string, 2>{"10.0.0.0/8", "::1"});
  const IpAddress peer = *IpAddress::Parse("10.0.0.1");
  const IpAddress stranger = *IpAddress::Parse("11.0.0.1");
  for (const ClientHeader kind :
       {ClientHeader::kXForwardedFor, ClientHeader::kForwarded, ClientHeader::kXRealIp}) {
    const ClientAddressConfig config = {trusted, kind};
    std::array<char, kIpTextMax> out;
    FG_CHECK(!ResolveClientAddress(peer, head.headers, config).address.Format(out).empty());
    FG_CHECK(ResolveClientAddress(stranger, head.headers, config).address == stranger);
  }
  std::array<char, 64> scratch;
  for (const RepeatedLines repeated :
       {RepeatedLines::kAmbiguous, RepeatedLines::kFirst, RepeatedLines::kJoin})
    FG_CHECK(FindHeader(head.headers, "a", repeated, scratch).value.size() <= bytes.size());
  FG_CHECK(FindCookie(head.headers, "a").value.size() <= bytes.size());
}

void CheckInput(const uint8_t* data, size_t size) {
  if (size == 0) return;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  CheckPath(text, OptionsFrom(data[0]));
  CheckAddress(text);
  CheckHeaders(text);
  std::array<char, 64> scratch;
  FG_CHECK(FindQueryParameter(text, "a", scratch).value.size() <= text.size());
}

}  // namespace
}  // namespace flowguard::http

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  flowguard::http::CheckInput(data, size);
  return 0;
}
