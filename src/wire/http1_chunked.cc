// SPDX-License-Identifier: Apache-2.0
#include "wire/http1_chunked.h"

#include <algorithm>

#include "base/bounds.h"
#include "wire/scan.h"

namespace flowguard::wire {
namespace {

constexpr uint8_t kSizeDigitsMax = 16;
constexpr uint64_t kSizeMax = (uint64_t{1} << 63) - 1;

// The value of a hex digit, or -1.
int HexValue(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Headers that a reader who merges trailers into the header section would act upon.
bool MayBeTrailer(KnownHeader known) noexcept {
  switch (known) {
    case KnownHeader::kOther:
    case KnownHeader::kDate:
    case KnownHeader::kRateLimit:
    case KnownHeader::kRateLimitPolicy:
    case KnownHeader::kServer:
    case KnownHeader::kVia:
      return true;
    default:
      return false;
  }
}

}  // namespace

ChunkedDecoder::State ChunkedDecoder::AfterSizeByte(char c) noexcept {
  const int digit = HexValue(c);
  if (state_ == State::kSizeStart) {
    if (digit < 0) return State::kBad;
    left_ = static_cast<uint64_t>(digit);
    digits_ = 1;
    line_bytes_ = 0;
    return State::kSize;
  }
  if (digit >= 0) {
    if (digits_ == kSizeDigitsMax || left_ > (kSizeMax >> 4)) return State::kBad;
    left_ = left_ << 4 | static_cast<uint64_t>(digit);
    ++digits_;
    return State::kSize;
  }
  if (c == '\r') return State::kSizeLf;
  return c == ';' ? State::kExtension : State::kBad;
}

ChunkedDecoder::State ChunkedDecoder::AfterExtensionByte(char c) noexcept {
  if (c == '\r') return State::kSizeLf;
  if (!IsByte(kValueByte, c)) return State::kBad;
  ++extension_bytes_;
  const bool bounded = ++line_bytes_ <= base::kChunkLineBytesMax &&
                       extension_bytes_ <= base::kChunkExtensionBytesMax + data_bytes_;
  return bounded ? State::kExtension : State::kBad;
}

ChunkedDecoder::State ChunkedDecoder::AfterTrailerByte(char c) noexcept {
  if (++trailer_bytes_ > base::kTrailerBytesMax) return State::kBad;
  switch (state_) {
    case State::kTrailerStart:
      if (c == '\r') return State::kEndLf;
      if (!IsByte(kTokenByte, c) || ++trailer_count_ > base::kTrailerCountMax) return State::kBad;
      name_bytes_ = 1;
      name_[0] = c;
      return State::kTrailerName;
    case State::kTrailerName:
      if (c == ':') {
        const bool allowed = MayBeTrailer(Recognise({name_.data(), name_bytes_}));
        return allowed ? State::kTrailerValue : State::kBad;
      }
      if (!IsByte(kTokenByte, c)) return State::kBad;
      // Known names are shorter than the buffer, so a full one is none of them.
      if (name_bytes_ < name_.size()) name_[name_bytes_++] = c;
      return State::kTrailerName;
    case State::kTrailerValue:
      if (c == '\r') return State::kTrailerLf;
      return IsByte(kValueByte, c) ? State::kTrailerValue : State::kBad;
    default:
      return c == '\n' ? State::kTrailerStart : State::kBad;
  }
}

ChunkedDecoder::State ChunkedDecoder::AfterFramingByte(char c) noexcept {
  switch (state_) {
    case State::kSizeStart:
    case State::kSize:
      return AfterSizeByte(c);
    case State::kExtension:
      return AfterExtensionByte(c);
    case State::kSizeLf:
      if (c != '\n') return State::kBad;
      return left_ == 0 ? State::kTrailerStart : State::kData;
    case State::kDataCr:
      return c == '\r' ? State::kDataLf : State::kBad;
    case State::kDataLf:
      return c == '\n' ? State::kSizeStart : State::kBad;
    case State::kTrailerStart:
    case State::kTrailerName:
    case State::kTrailerValue:
    case State::kTrailerLf:
      return AfterTrailerByte(c);
    case State::kEndLf:
      return c == '\n' ? State::kDone : State::kBad;
    case State::kData:
    case State::kDone:
    case State::kBad:
      break;
  }
  return state_;
}

ChunkedDecoder::Piece ChunkedDecoder::Next(std::string_view bytes) noexcept {
  Piece piece;
  while (piece.taken < bytes.size() && state_ != State::kDone && state_ != State::kBad) {
    if (state_ == State::kData) {
      const auto run = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size() - piece.taken));
      piece.data = bytes.substr(piece.taken, run);
      piece.taken += run;
      data_bytes_ += run;
      left_ -= run;
      if (left_ == 0) state_ = State::kDataCr;
      return piece;
    }
    state_ = AfterFramingByte(bytes[piece.taken]);
    if (state_ != State::kBad) ++piece.taken;
  }
  if (state_ == State::kDone) piece.status = ParseStatus::kDone;
  if (state_ == State::kBad) piece.status = ParseStatus::kBad;
  return piece;
}

ChunkedDecoder::Piece ChunkedDecoder::Feed(std::string_view bytes) noexcept {
  Piece whole;
  do {
    const Piece piece = Next(bytes.substr(whole.taken));
    whole.taken += piece.taken;
    whole.status = piece.status;
  } while (whole.status == ParseStatus::kNeedMore && whole.taken < bytes.size());
  return whole;
}

}  // namespace flowguard::wire
