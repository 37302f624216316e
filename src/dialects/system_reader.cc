// SPDX-License-Identifier: Apache-2.0
//
// The map under `system`: the most that a process may carry.
#include <charconv>
#include <optional>
#include <string>
#include <system_error>

#include "base/bounds.h"
#include "dialects/rule_reader.h"

namespace flowguard::dialects {

namespace {

using text::Describe;
using text::Quote;

constexpr DurationBounds kTimes = {Duration{}, base::kSystemRtMax};

void ReadPart(const Value& value, std::optional<double>& out) {
  double part = 0;
  if (ReadFraction(value, part)) out = part;
}

void ReadCalls(const Value& value, int64_t most, std::optional<int64_t>& out) {
  int64_t calls = 0;
  if (ReadInteger(value, {0, most}, calls)) out = calls;
}

void ReadMeanTime(const Value& value, std::optional<Duration>& out) {
  Duration time{};
  if (ReadTime(value, kTimes, time)) out = time;
}

// Digits, with a point among them at most: 6, 2.5.
void ReadLoad(const Value& value, std::optional<double>& out) {
  if (!value.node.IsScalar()) {
    return value.Fault("found " + Describe(value.node) + "; a number such as 6 or 2.5 is allowed");
  }
  const std::string& text = value.node.scalar;
  double load = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, load, std::chars_format::fixed);
  const bool plain = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
  if (!plain || error != std::errc() || stop != end) {
    return value.Fault(Quote(text) + " is not a load average; write a number such as 6 or 2.5");
  }
  if (load > base::kSystemLoadMax) {
    return value.Fault("found " + text + "; at most " +
                       std::to_string(static_cast<int64_t>(base::kSystemLoadMax)) + " is allowed");
  }
  out = load;
}

constexpr Field<SystemRule> kSystemFields[] = {
    {"cpu", [](const Value& v, SystemRule& system) { ReadPart(v, system.cpu); }},
    {"load", [](const Value& v, SystemRule& system) { ReadLoad(v, system.load); }},
    {"inflight",
     [](const Value& v, SystemRule& system) { ReadCalls(v, base::kLimitMax, system.inflight); }},
    {"avg_rt", [](const Value& v, SystemRule& system) { ReadMeanTime(v, system.avg_rt); }},
    {"qps",
     [](const Value& v, SystemRule& system) { ReadCalls(v, base::kRatePerSecondMax, system.qps); }},
};

}  // namespace

void ReadSystem(const Value& value, SystemRule& system) {
  if (!ReadMap(value, kSystemFields, system)) return;
  if (value.node.members.empty()) {
    value.Fault(
        "found none of cpu, load, inflight, avg_rt and qps; write at least one, like "
        "{cpu: 0.85}");
  }
}

}  // namespace flowguard::dialects
