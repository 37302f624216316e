// SPDX-License-Identifier: Apache-2.0
#include "stats/load_reader.h"

#include <vector>

#include "base/try.h"
#include "stats/cpu_texts.h"
#include "stats/system_file.h"

namespace flowguard::stats {

Result<LoadAverage> ReadLoad(const std::string& root) {
  FG_ASSIGN_OR_RETURN(const std::string text, ReadNeededFile(root + "/proc/loadavg"));
  FG_ASSIGN_OR_RETURN(const LoadTexts texts, ParseLoad(text));
  FG_ASSIGN_OR_RETURN(const std::string online,
                      ReadNeededFile(root + "/sys/devices/system/cpu/online"));
  FG_ASSIGN_OR_RETURN(const std::vector<int> cpus, ParseCpuList(online));
  if (cpus.empty()) return Error::Unavailable("no processor is online");
  return LoadAverage{texts.one, texts.five, texts.fifteen, static_cast<int>(cpus.size())};
}

}  // namespace flowguard::stats
