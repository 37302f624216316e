// SPDX-License-Identifier: Apache-2.0
#include "observe/process_metrics.h"

#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

namespace flowguard::observe {
namespace {

std::string ReadWhole(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// The numbers of /proc/self/stat that are used here.
struct Stat {
  uint64_t user_ticks = 0;
  uint64_t system_ticks = 0;
  uint64_t threads = 0;
  uint64_t start_ticks = 0;
  uint64_t virtual_bytes = 0;
  uint64_t resident_pages = 0;
};

std::optional<Stat> ReadStat() {
  const std::string text = ReadWhole("/proc/self/stat");
  const size_t end_of_name = text.rfind(')');  // the name may hold anything
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string state;
  fields >> state;
  Stat stat;
  for (int field = 4; field <= 24; ++field) {  // numbered as in proc(5)
    std::string word;
    if (!(fields >> word)) return std::nullopt;
    uint64_t value = 0;
    std::from_chars(word.data(), word.data() + word.size(), value);
    if (field == 14) stat.user_ticks = value;
    if (field == 15) stat.system_ticks = value;
    if (field == 20) stat.threads = value;
    if (field == 22) stat.start_ticks = value;
    if (field == 23) stat.virtual_bytes = value;
    if (field == 24) stat.resident_pages = value;
  }
  return stat;
}

// When the machine was started, in seconds since 1970.
std::optional<uint64_t> BootSeconds() {
  const std::string text = ReadWhole("/proc/stat");
  const size_t at = text.find("\nbtime ");
  if (at == std::string::npos) return std::nullopt;
  uint64_t seconds = 0;
  const char* begin = text.data() + at + 7;
  if (std::from_chars(begin, text.data() + text.size(), seconds).ec != std::errc()) {
    return std::nullopt;
  }
  return seconds;
}

std::optional<uint64_t> OpenDescriptors() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return std::nullopt;
  uint64_t count = 0;
  while (const dirent* entry = readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): own stream
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(folder);
  return count > 0 ? count - 1 : 0;  // the one that reads the folder
}

uint64_t NsPerTick() noexcept {
  const long ticks = sysconf(_SC_CLK_TCK);
  return 1'000'000'000 / static_cast<uint64_t>(ticks > 0 ? ticks : 100);
}

void WriteStat(const Stat& stat, MetricsWriter& out) {
  const uint64_t tick = NsPerTick();
  out.Family("process_cpu_seconds", MetricType::kCounter, "User and system CPU time spent.");
  out.SampleSeconds(std::span<const Label>(), (stat.user_ticks + stat.system_ticks) * tick);
  out.Family("process_virtual_memory_bytes", MetricType::kGauge, "Virtual memory.");
  out.Sample(std::span<const Label>(), stat.virtual_bytes);
  out.Family("process_resident_memory_bytes", MetricType::kGauge, "Resident memory.");
  out.Sample(std::span<const Label>(),
             stat.resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  out.Family("process_threads", MetricType::kGauge, "Threads.");
  out.Sample(std::span<const Label>(), stat.threads);
  if (const auto boot = BootSeconds()) {
    out.Family("process_start_time_seconds", MetricType::kGauge,
               "When the process started, in seconds since 1970.");
    out.SampleSeconds(std::span<const Label>(), *boot * 1'000'000'000 + stat.start_ticks * tick);
  }
}

}  // namespace

void ProcessMetrics::Collect(MetricsWriter& out) {
  out.Family("flowguard_build_info", MetricType::kGauge, "Always 1; the labels tell the build.");
  out.Sample({{"version", version_}, {"compiler", __VERSION__}}, uint64_t{1});
  if (const auto stat = ReadStat()) WriteStat(*stat, out);
  if (const auto open = OpenDescriptors()) {
    out.Family("process_open_fds", MetricType::kGauge, "Open file descriptors.");
    out.Sample(std::span<const Label>(), *open);
  }
  rlimit bound{};
  if (getrlimit(RLIMIT_NOFILE, &bound) == 0) {
    out.Family("process_max_fds", MetricType::kGauge, "Most file descriptors allowed.");
    out.Sample(std::span<const Label>(), uint64_t{bound.rlim_cur});
  }
}

}  // namespace flowguard::observe
