// SPDX-License-Identifier: Apache-2.0
//
// The text of a target, taken apart: route templates and resource patterns.
//
//   route     = [ METHOD *( "|" METHOD ) " " ] "/" [ segment *( "/" segment ) ] [ "/" ]
//   segment   = literal | "{" name "}" | "*" | "**"
//   resource  = literal [ "*" ]
//
// {name} and * stand for one whole segment, ** for any number of them, none
// included, and stands last.  Methods and literals are compared byte by byte.
// One slash at the end is not looked at, in a template as in a path, so that
// "/orders/" does not escape a rule for "/orders".
//
// Literals are brought into the one spelling that a normalised path has: escapes of
// characters that may stand for themselves are decoded, other escapes written in
// capitals, bytes that no path may hold escaped.  What could never match is an error
// rather than dead: a star or brace inside a segment, an empty or dot segment, a dot
// segment at an escaped separator, a query, a broken escape.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"

namespace flowguard::rules {

struct RouteSegment {
  enum class Kind : uint8_t { kRest, kStar, kCapture, kLiteral };  // by precedence, least first
  Kind kind = Kind::kLiteral;
  std::string text;  // the literal, or the name of the capture

  friend bool operator==(const RouteSegment&, const RouteSegment&) = default;
};

struct RouteTemplate {
  std::vector<std::string> methods;  // empty: any
  std::vector<RouteSegment> segments;

  // Position of the segment that {name} captures; -1: none does.
  [[nodiscard]] int CaptureSegment(std::string_view name) const noexcept;
  [[nodiscard]] bool literal() const noexcept;
};

struct ResourcePattern {
  std::string text;  // without the star
  bool prefix = false;
};

// Errors: kInvalidArgument: what was found at which column of the text, and what
// is allowed.
[[nodiscard]] Result<RouteTemplate> ParseRoute(std::string_view text);
[[nodiscard]] Result<ResourcePattern> ParseResource(std::string_view text);

// The route with its literals in small letters, for paths whose letters are folded; names
// of captures and methods stay.  `route` need not be well-formed.
[[nodiscard]] std::string FoldRoute(std::string_view route);

}  // namespace flowguard::rules
