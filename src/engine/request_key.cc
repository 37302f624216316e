// SPDX-License-Identifier: Apache-2.0
#include "engine/request_key.h"

#include "engine/one_of_lists.h"
#include "rules/dimension.h"

namespace flowguard::engine {

std::string_view RawListValue(const Meeting& met, const rules::KeyPart& part,
                              ValueRoom& room) noexcept {
  if (part.dimension->kind == rules::DimensionKind::kIp)
    return met.request.WholeAddress(*part.dimension, room.composed);
  return RawValue(met, part, room);
}

std::string_view RawListValueAt(const Meeting& met, const rules::KeyPart& part, size_t place,
                                ValueRoom& room) noexcept {
  if (place == 0) return RawListValue(met, part, room);
  const rules::Dimension& dimension = *part.dimension;
  return dimension.kind == rules::DimensionKind::kIp
             ? met.request.WholeAddressAt(dimension, place, room.composed)
             : met.request.ValueAt(dimension, place, room.composed);
}

std::string_view ValueOf(const Meeting& met, const rules::KeyPart& part, ValueRoom& room) noexcept {
  return rules::Normalise(*part.dimension, RawValue(met, part, room), room.lowered);
}

std::string ReadableKey(const Meeting& met) {
  std::string text;
  for (const rules::KeyPart& part : met.rule.by) {
    ValueRoom room;
    rules::AppendReadable(*part.dimension, ValueOf(met, part, room), text);
    const size_t values = met.request.lists ? ValuesOf(met.request, *part.dimension) : 1;
    for (size_t place = 1; place < values; ++place) {
      const std::string_view raw = met.request.ValueAt(*part.dimension, place, room.composed);
      rules::AppendReadable(*part.dimension, rules::Normalise(*part.dimension, raw, room.lowered),
                            text);
    }
  }
  return text;
}

}  // namespace flowguard::engine
