// SPDX-License-Identifier: Apache-2.0
#include "http/path.h"

#include <algorithm>
#include <array>

#include "http/percent.h"
#include "wire/http1.h"

namespace flowguard::http {
namespace {

// What a byte may be in a path segment.
enum class PathByte : uint8_t {
  kPlain,    // stands for itself, raw or escaped: pchar without '%' and ';'
  kEscape,   // must be escaped: '%', '/', '?', '#', '\', space, quotes, 0x80 and above
  kControl,  // never allowed
};

constexpr std::array<PathByte, 256> MakePathBytes() {
  std::array<PathByte, 256> bytes{};
  for (unsigned c = 0; c < 256; ++c) {
    const bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    const bool mark =
        c > 0x20 && c < 0x7F &&
        std::string_view("-._~!$&'()*+,=:@").find(static_cast<char>(c)) != std::string_view::npos;
    bytes[c] = PathByte::kEscape;
    if (alnum || mark) bytes[c] = PathByte::kPlain;
    if (c < 0x20 || c == 0x7F) bytes[c] = PathByte::kControl;
  }
  return bytes;
}

constexpr std::array<PathByte, 256> kPathBytes = MakePathBytes();

PathByte ClassOf(char c) noexcept {
  return kPathBytes[static_cast<unsigned char>(c)];
}
bool IsUpper(char c) noexcept {
  return c >= 'A' && c <= 'Z';
}

// The target without scheme, authority and query; `query` is set.
std::string_view PathPart(std::string_view target, std::string_view& query) noexcept {
  const size_t question = target.find('?');
  if (question != std::string_view::npos) {
    query = target.substr(question + 1);
    target = target.substr(0, question);
  }
  if (target.empty() || target.front() == '/' || target == "*") return target;
  size_t authority = 0;
  if (wire::EqualsIgnoreCase(target.substr(0, 7), "http://")) authority = 7;
  if (wire::EqualsIgnoreCase(target.substr(0, 8), "https://")) authority = 8;
  if (authority == 0) return target;
  const size_t slash = target.find('/', authority);
  return slash == std::string_view::npos ? std::string_view() : target.substr(slash);
}

// True when nothing is to be done, so that the path can be used where it stands.
// May say false of a normal path (a segment that begins with a dot, an escape).
bool IsNormal(std::string_view path, const PathOptions& options) noexcept {
  char before = '\0';
  for (const char c : path) {
    if (c == '/' ? before == '/' : ClassOf(c) != PathByte::kPlain) return false;
    if (c == '.' && before == '/') return false;
    if (options.fold_case && IsUpper(c)) return false;
    before = c;
  }
  return before != '/' || path.size() == 1;
}

// Builds the normal form segment by segment.
class Builder {
 public:
  Builder(const PathOptions& options, std::span<char> buffer) noexcept
      : options_(options), buffer_(buffer) {}

  PathStatus Run(std::string_view path) noexcept {
    for (size_t at = 0; at < path.size() && status_ == PathStatus::kOk;) {
      const char raw = path[at];
      int byte = static_cast<unsigned char>(raw);
      if (raw == '%') {
        byte = EscapedByte(path.substr(at));
        if (byte < 0) return PathStatus::kBad;
      }
      at += raw == '%' ? 3 : 1;
      Take(static_cast<char>(byte), raw == '%');
    }
    EndPiece(/*at_data=*/false);
    EndSegment(/*last=*/true);
    return status_;
  }

  [[nodiscard]] std::string_view path() const noexcept { return {buffer_.data(), size_}; }

 private:
  bool IsSeparator(char c, bool escaped) const noexcept {
    if (c == '/') return !escaped || options_.encoded_slash_separates;
    return c == '\\' && options_.backslash == Backslash::kSlash;
  }

  void Take(char c, bool escaped) noexcept {
    const bool separator = IsSeparator(c, escaped);
    TakeForDots(c, separator);
    if (separator) {
      if (started_) EndSegment(/*last=*/false);
      started_ = true;
      in_parameters_ = false;
      Put('/');
      segment_ = size_;
      return;
    }
    if (c == '\\' && !escaped) status_ = PathStatus::kBad;
    if (ClassOf(c) == PathByte::kControl) status_ = PathStatus::kBad;
    if (in_parameters_) return;
    if (c == ';' && !escaped && options_.drop_parameters) {
      in_parameters_ = true;
    } else if (ClassOf(c) == PathByte::kPlain || (c == ';' && !options_.drop_parameters)) {
      Put(options_.fold_case && IsUpper(c) ? static_cast<char>(c | 0x20) : c);
    } else {
      PutEscaped(c);
    }
  }

  // Counts the dots of the piece between two separators, whether they separate here or
  // are data that an upstream may decode and separate by.  Parameters do not count.
  void TakeForDots(char c, bool separator) noexcept {
    if (separator || c == '/' || c == '\\') {
      EndPiece(/*at_data=*/!separator);
    } else if (c == ';') {
      if (is_dot_segment() && options_.drop_parameters) status_ = PathStatus::kBad;
      piece_done_ = true;
    } else if (!piece_done_) {
      dots_ = c == '.' && dots_ < kNoDotSegment ? dots_ + 1 : kNoDotSegment;
    }
  }

  [[nodiscard]] bool is_dot_segment() const noexcept { return dots_ > 0 && dots_ < kNoDotSegment; }

  void EndPiece(bool at_data) noexcept {
    if (is_dot_segment() && (at_data || behind_data_)) status_ = PathStatus::kBad;
    behind_data_ = at_data;
    holds_data_ = holds_data_ || at_data;
    piece_done_ = false;
    dots_ = 0;
  }

  // A segment is whole: takes back what "." and ".." and empty segments undo.  buffer_
  // holds "…/segment"; afterwards it ends before the next '/', or, for the last one,
  // as the path shall end.
  void EndSegment(bool last) noexcept {
    if (status_ != PathStatus::kOk) return;
    const std::string_view segment = path().substr(segment_);
    bool dropped = segment.empty() && options_.merge_slashes;
    CountAbove(segment, dropped || holds_data_);
    holds_data_ = false;
    if (segment == ".") {
      size_ = segment_;
      dropped = true;
    } else if (segment == "..") {
      size_ = segment_ - 1;  // before the '/' of this segment
      const size_t slash = path().rfind('/');
      size_ = slash == std::string_view::npos ? 1 : slash + 1;
      dropped = true;
    }
    // size_ stands behind a '/'.  The next segment brings its own.
    if (dropped && !last) --size_;
    if (!last) return;
    if (options_.strip_trailing_slash)
      while (size_ > 1 && buffer_[size_ - 1] == '/')
        --size_;
  }

  // Keeps above_ as it is behind this segment.  ".." must not take back a segment of which
  // another reader sees none or two: what is left then is another path there.
  void CountAbove(std::string_view segment, bool ambiguous) noexcept {
    if (segment == ".." && above_ == 0) status_ = PathStatus::kBad;
    if (ambiguous) {
      above_ = 0;
    } else if (above_ != kNoneAmbiguous && segment != ".") {
      above_ += segment == ".." ? -1 : 1;
    }
  }

  void Put(char c) noexcept {
    if (size_ == buffer_.size()) {
      if (status_ == PathStatus::kOk) status_ = PathStatus::kTooLong;
      return;
    }
    buffer_[size_++] = c;
  }

  void PutEscaped(char c) noexcept {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    Put('%');
    Put(kDigits[byte >> 4]);
    Put(kDigits[byte & 0xF]);
  }

  const PathOptions& options_;
  std::span<char> buffer_;
  size_t size_ = 0;
  size_t segment_ = 0;  // where the current segment begins, behind its '/'
  bool started_ = false;
  bool in_parameters_ = false;
  static constexpr int kNoDotSegment = 3;  // dots, or another character
  int dots_ = 0;                           // of the current piece
  bool piece_done_ = false;                // the piece's parameters have begun
  bool behind_data_ = false;               // the piece begins at a separator that is data
  bool holds_data_ = false;                // so does some piece of the segment
  static constexpr int kNoneAmbiguous = -1;
  int above_ = kNoneAmbiguous;  // segments behind the last one that readers may count otherwise
  PathStatus status_ = PathStatus::kOk;
};

// Where case is folded, the upstream is said not to tell case either.
bool SameBut(std::string_view normal, std::string_view given, bool fold_case) noexcept {
  return std::equal(normal.begin(), normal.end(), given.begin(), given.end(),
                    [fold_case](char a, char b) {
                      return a == b || (fold_case && b >= 'A' && b <= 'Z' && a == b - 'A' + 'a');
                    });
}

}  // namespace

NormalisedPath NormalisePath(std::string_view target, const PathOptions& options,
                             std::span<char> buffer) noexcept {
  NormalisedPath result;
  if (target.find('#') != std::string_view::npos) return result;
  const std::string_view path = PathPart(target, result.query);
  if (path.empty() || path == "*") {
    result.status = target.empty() ? PathStatus::kBad : PathStatus::kOk;
    result.path = path.empty() ? std::string_view("/") : path;
    result.as_it_came = true;
    return result;
  }
  if (path.front() != '/') return result;
  if (IsNormal(path, options)) {
    result.status = PathStatus::kOk;
    result.path = path;
    result.as_it_came = true;
    return result;
  }
  Builder builder(options, buffer);
  result.status = builder.Run(path);
  if (result.status == PathStatus::kOk) result.path = builder.path();
  result.as_it_came = SameBut(result.path, path, options.fold_case);
  return result;
}

}  // namespace flowguard::http
