// SPDX-License-Identifier: Apache-2.0
//
// The chunked transfer coding, read as a stream: where a message ends while its
// bytes are passed on untouched, and, for those who need it, the data inside.
//
// Strict: sizes are 1 to 16 hex digits below 2^63, followed at once by CRLF or ';';
// bare LF, bare CR and control bytes are refused; extensions are bounded for a line,
// and for the message by the data that it carries; trailers are bounded in number and
// bytes, and may not name what decides about framing, routing or identity.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/http1.h"

namespace flowguard::wire {

// Threads: one owner.  Memory: 72 bytes, no buffer.
class ChunkedDecoder {
 public:
  // One step's view of the input.
  struct Piece {
    size_t taken = 0;       // bytes of the input that were used up
    std::string_view data;  // decoded data among them; may be empty
    ParseStatus status = ParseStatus::kNeedMore;
  };

  // For passing on: takes as much of `bytes` as belongs to this message.
  // kDone: the message ended after `taken` bytes; what is behind is another message.
  // kNeedMore: all of it was taken.  kBad: the coding is broken at byte `taken`;
  // what stands before may have been passed on, the connection must end.  After
  // kDone and kBad the decoder stays as it is until Reset.
  Piece Feed(std::string_view bytes) noexcept;

  // For decoding: as Feed, but stops after each run of data.  kNeedMore with
  // taken < bytes.size() means: call again with the rest.
  Piece Next(std::string_view bytes) noexcept;

  [[nodiscard]] bool done() const noexcept { return state_ == State::kDone; }
  // Bytes seen behind the last chunk: the trailers and the CR or CRLF that ends them.
  [[nodiscard]] size_t trailer_bytes() const noexcept { return trailer_bytes_ + (done() ? 1 : 0); }
  // Data bytes seen so far.
  [[nodiscard]] uint64_t data_bytes() const noexcept { return data_bytes_; }
  void Reset() noexcept { *this = ChunkedDecoder(); }

 private:
  enum class State : uint8_t {
    kSizeStart,
    kSize,
    kExtension,
    kSizeLf,
    kData,
    kDataCr,
    kDataLf,
    kTrailerStart,
    kTrailerName,
    kTrailerValue,
    kTrailerLf,
    kEndLf,
    kDone,
    kBad,
  };

  // Handle one byte that is not data; kBad when it may not stand there.
  State AfterSizeByte(char c) noexcept;
  State AfterExtensionByte(char c) noexcept;
  State AfterTrailerByte(char c) noexcept;
  State AfterFramingByte(char c) noexcept;

  uint64_t left_ = 0;             // size being read, then data bytes to come
  uint64_t data_bytes_ = 0;       // of the message
  uint64_t extension_bytes_ = 0;  // of the message
  uint32_t line_bytes_ = 0;       // of this chunk's extensions
  uint32_t trailer_bytes_ = 0;
  uint16_t trailer_count_ = 0;
  uint8_t digits_ = 0;
  uint8_t name_bytes_ = 0;
  std::array<char, 24> name_{};  // of a trailer, as far as it fits
  State state_ = State::kSizeStart;
};

}  // namespace flowguard::wire
