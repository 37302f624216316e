// SPDX-License-Identifier: Apache-2.0
//
// What every process tells Prometheus (process_*) and which build it is.
#pragma once

#include <string>

#include "observe/metrics_writer.h"

namespace flowguard::observe {

class ProcessMetrics final : public MetricsSource {
 public:
  explicit ProcessMetrics(std::string version) : version_(std::move(version)) {}

  // Reads /proc/self; families whose source cannot be read are left out.
  void Collect(MetricsWriter& out) override;

 private:
  std::string version_;
};

}  // namespace flowguard::observe
