// SPDX-License-Identifier: Apache-2.0
//
// One spelling for each path, so that no other spelling escapes its rule.
//
// The normalised path is for matching and for keys.  What goes upstream is the target
// as it came, unless the server is told to forward the normalised one.
//
// Always: the query cut off; an absolute target reduced to its path; escapes
// of bytes that may stand for themselves decoded, exactly once ("%2561" stays "%2561");
// other escapes in upper case; raw bytes that no URI may hold escaped; dot segments
// removed, "%2e" included, never above the root.  The result is itself a valid path,
// and normalising it again changes nothing.
//
// Refused, since no honest client sends it and upstreams read it in more than one way:
// '#' anywhere in the target (it has no fragment; some cut one off, some do not); a dot
// segment at an escaped separator that is data ("/x/..%2Flogin"), which climbs where the
// upstream decodes before it resolves dots; a dot segment with parameters ("/x/..;/login"),
// which climbs only where they are cut off first; and ".." that takes back a segment which
// others count otherwise: an empty one ("/x//../login" is "/x/login" to who keeps it) or
// one with an escaped separator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace flowguard::http {

// A raw '\' is no URI character; "%5C" is legal data ("DOMAIN%5Cuser").
enum class Backslash : uint8_t {
  kReject,  // raw: bad; "%5C" is kept
  kSlash,   // raw and escaped are separators: for upstreams on Windows
};

// The defaults err towards putting two spellings under one rule: most upstreams treat
// them as one resource, and one rule too many is seen where a hole is not.
struct PathOptions {
  bool merge_slashes = true;             // "//login" is "/login"
  bool strip_trailing_slash = true;      // "/login/" is "/login"; "/" stays
  bool drop_parameters = true;           // "/login;x=1" is "/login"
  bool fold_case = false;                // "/LOGIN" is "/login"; most upstreams tell them apart
  bool encoded_slash_separates = false;  // "%2F" is data, as in most upstreams
  Backslash backslash = Backslash::kReject;
};

enum class PathStatus : uint8_t {
  kOk,
  kBad,      // 400: a broken escape, a control byte (raw or escaped), a raw backslash, '#',
             // or a dot segment that others may resolve otherwise
  kTooLong,  // 414: longer than the buffer
};

struct NormalisedPath {
  PathStatus status = PathStatus::kBad;
  std::string_view path;   // begins with '/'; or "*".  A view of the target or the buffer
  std::string_view query;  // raw, without '?'; a view of the target
  // The target's own path is `path` already, but for folded case: every reader takes it for
  // the same one.
  bool as_it_came = false;
};

// Requires: `target` is that of a parsed request head (any bytes are safe).
// Cost: no allocation; a path that is normal already is not copied.
[[nodiscard]] NormalisedPath NormalisePath(std::string_view target, const PathOptions& options,
                                           std::span<char> buffer) noexcept;

}  // namespace flowguard::http
