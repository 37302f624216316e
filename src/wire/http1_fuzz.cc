// SPDX-License-Identifier: Apache-2.0
//
// Any bytes, given whole and byte by byte, must be the same messages.  The first byte
// chooses what they are: requests, responses, responses to HEAD, or a chunked body.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/check.h"
#include "wire/http1.h"
#include "wire/http1_chunked.h"
#include "wire/http1_writer.h"

namespace flowguard::wire {
namespace {

void CheckLines(std::string_view bytes, const HeaderList& headers) {
  for (const Header& header : headers.all()) {
    FG_CHECK(IsToken(header.name));
    FG_CHECK(IsFieldValue(header.value));
    FG_CHECK(header.name.data() >= bytes.data());
    FG_CHECK(header.value.data() + header.value.size() <= bytes.data() + bytes.size());
    FG_CHECK(Recognise(header.name) == header.known);
    if (header.known != KnownHeader::kOther)
      FG_CHECK(EqualsIgnoreCase(headers.Find(header.known)->name, header.name));
  }
}

// What was understood, as text.
std::string Summary(const RequestHead& head) {
  std::string text = std::string(head.method_text) + '|' + std::string(head.target) + '|' +
                     std::string(head.host) + '|' + std::to_string(head.content_length) + '|' +
                     std::to_string(head.consumed) + '|' +
                     std::to_string(static_cast<int>(head.body)) + (head.keep_alive ? "k" : "") +
                     (head.expect_continue ? "e" : "") + (head.upgrade ? "u" : "");
  for (const Header& header : head.headers.all())
    text += '|' + std::string(header.name) + ':' + std::string(header.value) +
            (header.hop_by_hop ? "-" : "+");
  return text;
}

std::string Summary(const ResponseHead& head) {
  std::string text = std::to_string(head.status) + '|' + std::string(head.reason) + '|' +
                     std::to_string(head.content_length) + '|' + std::to_string(head.consumed) +
                     '|' + std::to_string(static_cast<int>(head.body)) +
                     (head.keep_alive ? "k" : "");
  for (const Header& header : head.headers.all())
    text += '|' + std::string(header.name) + ':' + std::string(header.value) +
            (header.hop_by_hop ? "-" : "+");
  return text;
}

// Writing the lines that were understood and reading them again changes nothing.
void CheckRoundTrip(const RequestHead& head) {
  std::string buffer(2 * base::kHeadBytesMax, '\0');
  HeadWriter out(buffer);
  out.RequestLine(head.method_text, head.target);
  if (head.minor_version == 0 && !head.headers.Has(KnownHeader::kHost)) out.AddLine("host", "");
  for (const Header& header : head.headers.all())
    out.Forward(header);
  out.End();
  if (!out.ok() || out.size() > base::kHeadBytesMax) return;
  if (head.headers.count == base::kHeaderCountMax) return;
  static RequestHead again;
  FG_CHECK(ParseRequestHead(out.view(), 0, again) == ParseStatus::kDone ||
           again.bad == BadReason::kExpectation);  // HTTP/1.0 ignores Expect
  if (again.bad != BadReason::kNone) return;
  FG_CHECK(again.body == head.body && again.content_length == head.content_length);
  FG_CHECK(again.target == head.target && again.host == head.host);
}

template <typename Head, typename Parse>
void CheckHead(std::string_view bytes, Parse parse) {
  static Head whole;
  static Head part;
  const ParseStatus status = parse(bytes, 0, whole);
  if (status == ParseStatus::kDone) {
    FG_CHECK(whole.consumed <= bytes.size() && whole.consumed <= base::kHeadBytesMax);
    CheckLines(bytes, whole.headers);
    if constexpr (std::is_same_v<Head, RequestHead>) CheckRoundTrip(whole);
  }
  ParseStatus trickled = ParseStatus::kNeedMore;
  size_t n = 0;
  while (trickled == ParseStatus::kNeedMore && n < bytes.size()) {
    ++n;
    trickled = parse(bytes.substr(0, n), n - 1, part);
  }
  if (status == ParseStatus::kDone) {
    FG_CHECK(trickled == ParseStatus::kDone && n == whole.consumed);
    FG_CHECK(Summary(whole) == Summary(part));
  } else if (status == ParseStatus::kNeedMore) {
    FG_CHECK(trickled == ParseStatus::kNeedMore);
  } else {
    // A fault may show later, never as another one, and never not at all once the
    // head has ended.
    FG_CHECK(trickled != ParseStatus::kDone);
    if (trickled == ParseStatus::kBad) FG_CHECK(part.bad == whole.bad);
    if (trickled == ParseStatus::kNeedMore)
      FG_CHECK(bytes.find("\r\n\r\n") == std::string_view::npos);
  }
}

void CheckChunked(std::string_view bytes) {
  ChunkedDecoder whole;
  const auto all = whole.Feed(bytes);
  ChunkedDecoder trickle;
  std::string data;
  size_t taken = 0;
  ParseStatus status = ParseStatus::kNeedMore;
  while (status == ParseStatus::kNeedMore && taken < bytes.size()) {
    const auto piece = trickle.Next(bytes.substr(taken, 1));
    data += piece.data;
    taken += piece.taken;
    status = piece.status;
  }
  FG_CHECK(status == all.status && taken == all.taken);
  FG_CHECK(data.size() == whole.data_bytes());
}

void CheckInput(const uint8_t* data, size_t size) {
  if (size == 0) return;
  // A copy of the exact size, so that the sanitizer sees a read past the end.
  const auto copy = std::make_unique<char[]>(size - 1);
  std::copy_n(data + 1, size - 1, copy.get());
  const std::string_view bytes(copy.get(), size - 1);
  switch (data[0] % 4) {
    case 0:
      CheckHead<RequestHead>(bytes, ParseRequestHead);
      break;
    case 1:
    case 2:
      CheckHead<ResponseHead>(bytes, [&](std::string_view b, size_t scanned, ResponseHead& head) {
        return ParseResponseHead(b, scanned, data[0] % 4 == 2, head);
      });
      break;
    default:
      CheckChunked(bytes);
  }
}

}  // namespace
}  // namespace flowguard::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  flowguard::wire::CheckInput(data, size);
  return 0;
}
