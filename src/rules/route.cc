// SPDX-License-Identifier: Apache-2.0
#include "rules/route.h"

#include <algorithm>

#include "base/bounds.h"
#include "rules/dimension.h"

namespace flowguard::rules {

namespace {

bool IsAlpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

int HexValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// What may stand in a path segment as it is (RFC 3986, pchar).
bool IsSegmentChar(char c) {
  return IsAlpha(c) || IsDigit(c) ||
         std::string_view("-._~!$&'()*+,;=:@").find(c) != std::string_view::npos;
}

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

// The byte of an escape that `here` begins with; -1: it is none.
int EscapedByte(std::string_view here) {
  if (here.size() < 3 || here.front() != '%') return -1;
  if (HexValue(here[1]) < 0 || HexValue(here[2]) < 0) return -1;
  return HexValue(here[1]) * 16 + HexValue(here[2]);
}

void AppendEscaped(char c, std::string& text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  text += '%';
  text += kHex[byte >> 4];
  text += kHex[byte & 15];
}

// Reads a text from its start and knows its column.
struct Reader {
  std::string_view whole;
  std::string_view rest;

  [[nodiscard]] Error Bad(std::string_view what) const { return BadAt(rest, what); }
  [[nodiscard]] Error BadAt(std::string_view from, std::string_view what) const {
    const size_t column = static_cast<size_t>(from.data() - whole.data()) + 1;
    return Error::InvalidArgument("\"" + std::string(whole) + "\": column " +
                                  std::to_string(column) + ": " + std::string(what));
  }
};

Result<void> ReadMethods(Reader& in, std::vector<std::string>& methods) {
  const size_t space = in.rest.find(' ');
  if (space == std::string_view::npos || in.rest.front() == '/') return {};
  std::string_view list = in.rest.substr(0, space);
  while (true) {
    const std::string_view method = list.substr(0, list.find('|'));
    const bool upper = std::all_of(method.begin(), method.end(),
                                   [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; });
    if (method.empty() || !upper) {
      return in.BadAt(list, "found method \"" + std::string(method) +
                                "\"; write METHOD or METHOD|METHOD in capitals, one space, "
                                "then the path");
    }
    if (std::find(methods.begin(), methods.end(), method) != methods.end())
      return in.BadAt(list, "method " + std::string(method) + " is named twice");
    methods.emplace_back(method);
    if (method.size() == list.size()) break;
    list.remove_prefix(method.size() + 1);
  }
  in.rest.remove_prefix(space + 1);
  return {};
}

// "..%2Fa": `literal` in the spelling of normalised paths.
bool HasDotsAtEscapedSeparator(std::string_view literal) {
  size_t start = 0;
  for (size_t i = 0; i <= literal.size(); ++i) {
    const std::string_view here = literal.substr(i, 3);
    const bool separator = here == "%2F" || here == "%5C";
    if (!separator && i < literal.size()) continue;
    const std::string_view piece = literal.substr(start, i - start);
    // Without a separator, the piece is the whole.
    if (piece.size() < literal.size() && (piece == "." || piece == "..")) return true;
    start = i + 3;
  }
  return false;
}

// What speaks against the character, or the escape, that `here` begins with; empty: nothing.
std::string_view FaultInLiteral(std::string_view here) {
  const char c = here.front();
  if (c == '*') return "'*' inside a segment; it stands for a whole one";
  if (c == '{' || c == '}') return "brace inside a segment; {name} stands for a whole one";
  if (c == '?' || c == '#') return "query or fragment; routes are matched by path alone";
  if (IsControl(c) || c == ' ' || c == '"' || c == '\\')
    return "character that no path holds; write it percent-encoded";
  if (c != '%') return {};
  const int byte = EscapedByte(here);
  if (byte < 0) return "'%' without two hexadecimal digits";
  if (IsControl(static_cast<char>(byte)))
    return "escaped control character; such paths are refused";
  return {};
}

// The literal in the spelling of normalised paths.
Result<std::string> ReadLiteral(const Reader& in, std::string_view text) {
  std::string literal;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view here = text.substr(i);
    if (const std::string_view fault = FaultInLiteral(here); !fault.empty())
      return in.BadAt(here, fault);
    char c = here.front();
    if (c == '%') {
      c = static_cast<char>(EscapedByte(here));
      i += 2;
    }
    if (IsSegmentChar(c)) {
      literal += c;
    } else {
      AppendEscaped(c, literal);
    }
  }
  if (literal.empty()) return in.BadAt(text, "empty segment; paths are matched without them");
  if (literal == "." || literal == "..")
    return in.BadAt(text, "dot segment; paths are matched after these are resolved");
  if (HasDotsAtEscapedSeparator(literal))
    return in.BadAt(text, "dot segment at an escaped '/' or '\\'; such paths are refused");
  return literal;
}

Result<RouteSegment> ReadSegment(const Reader& in, std::string_view text) {
  if (text == "**") return RouteSegment{RouteSegment::Kind::kRest, {}};
  if (text == "*") return RouteSegment{RouteSegment::Kind::kStar, {}};
  if (text.size() >= 2 && text.front() == '{' && text.back() == '}') {
    const std::string_view name = text.substr(1, text.size() - 2);
    const bool good = !name.empty() && !IsDigit(name.front()) &&
                      std::all_of(name.begin(), name.end(), [](char c) {
                        return IsAlpha(c) || IsDigit(c) || c == '_' || c == '-';
                      });
    if (!good) {
      return in.BadAt(text, "found capture " + std::string(text) +
                                "; a name has letters, digits, '_' and '-', a letter or '_' first");
    }
    return RouteSegment{RouteSegment::Kind::kCapture, std::string(name)};
  }
  auto literal = ReadLiteral(in, text);
  if (!literal.ok()) return std::move(literal).error();
  return RouteSegment{RouteSegment::Kind::kLiteral, *std::move(literal)};
}

}  // namespace

int RouteTemplate::CaptureSegment(std::string_view name) const noexcept {
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].kind == RouteSegment::Kind::kCapture && segments[i].text == name)
      return static_cast<int>(i);
  }
  return -1;
}

bool RouteTemplate::literal() const noexcept {
  return std::all_of(segments.begin(), segments.end(), [](const RouteSegment& segment) {
    return segment.kind == RouteSegment::Kind::kLiteral;
  });
}

Result<RouteTemplate> ParseRoute(std::string_view text) {
  Reader in{text, text};
  RouteTemplate route;
  if (text.size() > base::kRouteBytesMax)
    return Error::InvalidArgument("longer than " + std::to_string(base::kRouteBytesMax) + " bytes");
  auto methods = ReadMethods(in, route.methods);
  if (!methods.ok()) return std::move(methods).error();
  if (in.rest.empty() || in.rest.front() != '/')
    return in.Bad("a path begins with '/'; write \"/path\" or \"METHOD /path\"");
  in.rest.remove_prefix(1);
  if (!in.rest.empty() && in.rest.back() == '/') in.rest.remove_suffix(1);
  if (in.rest.empty() && text.back() == '/' && text.size() >= 2 && text[text.size() - 2] == '/')
    return in.Bad("empty segment; paths are matched without them");
  while (!in.rest.empty()) {
    const std::string_view piece = in.rest.substr(0, in.rest.find('/'));
    if (route.segments.size() == base::kRouteSegmentsMax)
      return in.Bad("more than " + std::to_string(base::kRouteSegmentsMax) + " segments");
    if (!route.segments.empty() && route.segments.back().kind == RouteSegment::Kind::kRest)
      return in.Bad("a segment behind '**'; it stands last");
    auto segment = ReadSegment(in, piece);
    if (!segment.ok()) return std::move(segment).error();
    if (segment->kind == RouteSegment::Kind::kCapture && route.CaptureSegment(segment->text) >= 0)
      return in.Bad("capture {" + segment->text + "} stands twice");
    route.segments.push_back(*std::move(segment));
    if (piece.size() == in.rest.size()) break;
    in.rest.remove_prefix(piece.size() + 1);
    if (in.rest.empty()) return in.Bad("empty segment; paths are matched without them");
  }
  return route;
}

Result<ResourcePattern> ParseResource(std::string_view text) {
  const Reader in{text, text};
  if (text.empty() || text.size() > base::kResourceBytesMax) {
    return Error::InvalidArgument("a resource has 1 to " + std::to_string(base::kResourceBytesMax) +
                                  " bytes");
  }
  const size_t star = text.find('*');
  if (star != std::string_view::npos && star + 1 != text.size())
    return in.BadAt(text.substr(star), "'*' inside; it may only stand at the end");
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsControl(text[i])) return in.BadAt(text.substr(i), "control character");
  }
  if (star != std::string_view::npos) text.remove_suffix(1);
  return ResourcePattern{std::string(text), star != std::string_view::npos};
}

std::string FoldRoute(std::string_view route) {
  const size_t path = std::min(route.find('/'), route.size());
  std::string folded(route.substr(0, path));
  bool capture = false;
  for (size_t i = path; i < route.size(); ++i) {
    const std::string_view here = route.substr(i);
    char c = here.front();
    if (c == '/') capture = here.substr(1).starts_with('{');
    // An escaped capital is one too: it is decoded where routes and paths are read.
    if (const int byte = EscapedByte(here); byte >= 0) {
      i += 2;
      c = static_cast<char>(byte);
      if (AsciiLower(c) == c) {
        folded += here.substr(0, 3);
        continue;
      }
    }
    folded += capture ? c : AsciiLower(c);
  }
  return folded;
}

}  // namespace flowguard::rules
