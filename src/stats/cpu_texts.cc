// SPDX-License-Identifier: Apache-2.0
#include "stats/cpu_texts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

#include "base/bounds.h"
#include "base/try.h"

namespace flowguard::stats {
namespace {

constexpr std::string_view kSpaces = " \t\n";

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

// Takes the text up to a separator, or all of it; the separator goes too.
std::string_view Take(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view taken = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return taken;
}

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  while (!(line = Trimmed(line)).empty()) {
    const size_t end = std::min(line.find_first_of(kSpaces), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

Error Odd(std::string_view what, std::string_view found) {
  constexpr size_t kShown = 60;
  return Error::InvalidArgument(std::string(what) + " is not as the kernel writes it: '" +
                                std::string(Trimmed(found).substr(0, kShown)) + "'");
}

template <typename Number>
std::optional<Number> Whole(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool Lists(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    if (Take(list, ',') == name) return true;
  }
  return false;
}

// Spaces and the like in a path stand as \040 there.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '7';
    };
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                 (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

Result<std::optional<double>> Quotient(int64_t quota, int64_t period, std::string_view found) {
  if (quota <= 0 || period <= 0) return Odd("a quota of processor time", found);
  return std::optional<double>(static_cast<double>(quota) / static_cast<double>(period));
}

}  // namespace

Result<std::vector<int>> ParseCpuList(std::string_view text) {
  std::vector<int> cpus;
  std::string_view rest = Trimmed(text);
  while (!rest.empty()) {
    const std::string_view range = Take(rest, ',');
    const size_t dash = range.find('-');
    const std::optional<int> first = Whole<int>(range.substr(0, dash));
    const std::optional<int> last =
        dash == std::string_view::npos ? first : Whole<int>(range.substr(dash + 1));
    if (!first.has_value() || !last.has_value() || *first < 0 || *last < *first ||
        *last >= static_cast<int>(base::kCpusMax)) {
      return Odd("a list of processors", text);
    }
    for (int cpu = *first; cpu <= *last; ++cpu)
      cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

Result<std::optional<double>> ParseCpuMax(std::string_view text) {
  const std::vector<std::string_view> words = Words(text);
  if (words.size() != 2) return Odd("cpu.max", text);
  const std::optional<int64_t> period = Whole<int64_t>(words[1]);
  if (!period.has_value()) return Odd("cpu.max", text);
  if (words[0] == "max") return std::optional<double>();
  const std::optional<int64_t> quota = Whole<int64_t>(words[0]);
  if (!quota.has_value()) return Odd("cpu.max", text);
  return Quotient(*quota, *period, text);
}

Result<std::optional<double>> ParseCfsQuota(std::string_view quota, std::string_view period) {
  FG_ASSIGN_OR_RETURN(const int64_t quota_us, ParseNumber(quota));
  if (quota_us == -1) return std::optional<double>();
  FG_ASSIGN_OR_RETURN(const int64_t period_us, ParseNumber(period));
  return Quotient(quota_us, period_us, quota);
}

Result<int64_t> ParseNumber(std::string_view text) {
  const std::optional<int64_t> number = Whole<int64_t>(Trimmed(text));
  if (!number.has_value()) return Odd("a number", text);
  return *number;
}

Result<int64_t> ParseNamedNumber(std::string_view text, std::string_view name) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::vector<std::string_view> words = Words(Take(rest, '\n'));
    if (words.size() == 2 && words[0] == name) return ParseNumber(words[1]);
  }
  return Odd("a list with " + std::string(name), text);
}

Result<std::string> ParseStatusLine(std::string_view text, std::string_view name) {
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = Take(rest, '\n');
    if (Take(line, ':') == name) return std::string(Trimmed(line));
  }
  return Odd("a status with " + std::string(name), text);
}

Result<int64_t> ParseProcessTicks(std::string_view text) {
  // The name of the process, in parentheses, may contain anything.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return Odd("/proc/self/stat", text);
  const std::vector<std::string_view> words = Words(text.substr(name_end + 1));
  // Fields 14 and 15 of proc(5), of which 3 is the first here.
  constexpr size_t kUser = 11;
  if (words.size() <= kUser + 1) return Odd("/proc/self/stat", text);
  const std::optional<int64_t> user = Whole<int64_t>(words[kUser]);
  const std::optional<int64_t> system = Whole<int64_t>(words[kUser + 1]);
  if (!user.has_value() || !system.has_value() || *user < 0 || *system < 0) {
    return Odd("/proc/self/stat", text);
  }
  return *user + *system;
}

Result<CpuTicks> ParseCpuTicks(std::string_view text, const std::vector<int>& cpus) {
  CpuTicks sum;
  size_t found = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::vector<std::string_view> words = Words(Take(rest, '\n'));
    if (words.empty() || words[0].substr(0, 3) != "cpu") continue;
    const std::optional<int> cpu = Whole<int>(words[0].substr(3));
    if (!cpu.has_value() || !std::binary_search(cpus.begin(), cpus.end(), *cpu)) continue;
    // user nice system idle iowait irq softirq steal; what follows is part of user and nice.
    constexpr size_t kIdle = 4;
    constexpr size_t kIoWait = 5;
    constexpr size_t kLast = 8;
    if (words.size() <= kIoWait) return Odd("/proc/stat", words[0]);
    for (size_t i = 1; i < words.size() && i <= kLast; ++i) {
      const std::optional<int64_t> ticks = Whole<int64_t>(words[i]);
      if (!ticks.has_value() || *ticks < 0) return Odd("/proc/stat", words[i]);
      sum.total += *ticks;
      if (i != kIdle && i != kIoWait) sum.busy += *ticks;
    }
    ++found;
  }
  if (found != cpus.size()) {
    return Error::InvalidArgument("/proc/stat tells of " + std::to_string(found) + " of " +
                                  std::to_string(cpus.size()) + " processors");
  }
  return sum;
}

Result<GroupPaths> ParseGroupPaths(std::string_view text) {
  GroupPaths paths;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = Take(rest, '\n');
    if (line.empty()) continue;
    const std::string_view number = Take(line, ':');
    const std::string_view controllers = Take(line, ':');
    if (!Whole<int>(number).has_value() || line.empty() || line[0] != '/') {
      return Odd("/proc/self/cgroup", text);
    }
    if (number == "0" && controllers.empty()) paths.unified = line;
    if (Lists(controllers, "cpu")) paths.cpu = line;
    if (Lists(controllers, "cpuacct")) paths.cpuacct = line;
    if (Lists(controllers, "cpuset")) paths.cpuset = line;
  }
  return paths;
}

Result<GroupMounts> ParseGroupMounts(std::string_view text) {
  GroupMounts mounts;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::vector<std::string_view> words = Words(Take(rest, '\n'));
    if (words.empty()) continue;
    // id parent device root point options [more] - type source options
    constexpr size_t kRoot = 3;
    constexpr size_t kPoint = 4;
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() <= kPoint || words.end() - dash < 4) {
      return Odd("/proc/self/mountinfo", text);
    }
    const std::string_view type = dash[1];
    const std::string_view options = dash[3];
    if (type != "cgroup" && type != "cgroup2") continue;
    const GroupMount mount{Unescaped(words[kRoot]), Unescaped(words[kPoint])};
    // Of several mounts the first: later ones are mostly copies with a part of it.
    const auto keep = [&](std::optional<GroupMount>& place, bool fits) {
      if (fits && !place.has_value()) place = mount;
    };
    keep(mounts.unified, type == "cgroup2");
    keep(mounts.cpu, type == "cgroup" && Lists(options, "cpu"));
    keep(mounts.cpuacct, type == "cgroup" && Lists(options, "cpuacct"));
    keep(mounts.cpuset, type == "cgroup" && Lists(options, "cpuset"));
  }
  return mounts;
}

Result<LoadTexts> ParseLoad(std::string_view text) {
  const std::vector<std::string_view> words = Words(text);
  if (words.size() < 3) return Odd("/proc/loadavg", text);
  LoadTexts load;
  double* const places[] = {&load.one, &load.five, &load.fifteen};
  for (size_t i = 0; i < 3; ++i) {
    const std::optional<double> number = Whole<double>(words[i]);
    if (!number.has_value() || !std::isfinite(*number) || *number < 0) {
      return Odd("/proc/loadavg", text);
    }
    *places[i] = *number;
  }
  return load;
}

}  // namespace flowguard::stats
