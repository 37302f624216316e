// SPDX-License-Identifier: Apache-2.0
//
// What operators and their machines ask, on a door of its own: metrics, health,
// readiness, the rules in force.  Nothing here counts against a limit.
//
//   GET /metrics   Prometheus text, or OpenMetrics if the reader asks for it
//   GET /healthz   200 while the process lives
//   GET /readyz    200 while it takes requests; 503 from the moment that it drains
//   GET /rules     the rules in force, as YAML or (Accept: application/json) JSON
//   GET /v1/resources   what came of requests of late, as JSON (resources_json.h)
//   GET /config    version, generation, when rules were loaded, the last error
//
// Threads: the loop's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flowguard/time.h"

#include "engine/statistics_report.h"
#include "http/handler.h"
#include "observe/metrics_writer.h"

namespace flowguard::admin {

// Whether the process should be sent requests, and each thing that this depends on.
struct Readiness {
  bool ready = false;
  std::vector<std::pair<std::string, std::string>> checks;  // {"rules", "loaded"}
};

struct ConfigReport {
  std::string version;      // of the program
  uint64_t generation = 0;  // of the rules
  std::string source;       // the rule file, or "command line"
  WallTime loaded_at{};     // of the rules in force
  std::string last_error;   // of the last reload; empty: it was good
};

// What the door asks the process that it belongs to.
class AdminSubject {
 public:
  virtual ~AdminSubject() = default;
  [[nodiscard]] virtual Readiness CheckReadiness() = 0;
  [[nodiscard]] virtual ConfigReport ReportConfig() = 0;
  // The rules in force in the form of a rule file.
  [[nodiscard]] virtual std::string RulesAsYaml() = 0;
  [[nodiscard]] virtual engine::StatisticsReport ReportStatistics(
      const engine::StatisticsQuery& query) = 0;
};

class AdminApi final : public http::Handler {
 public:
  // All must outlive this.
  AdminApi(AdminSubject& subject, std::vector<observe::MetricsSource*> sources)
      : subject_(subject), sources_(std::move(sources)) {}

  void Handle(const wire::RequestHead& head, std::string_view body, const http::PeerInfo& peer,
              http::Responder& responder) noexcept override;

 private:
  void Metrics(const wire::RequestHead& head, http::Responder& responder);
  void Ready(http::Responder& responder);
  void Rules(const wire::RequestHead& head, http::Responder& responder);
  void Config(http::Responder& responder);
  void Resources(std::string_view query, http::Responder& responder);

  AdminSubject& subject_;
  std::vector<observe::MetricsSource*> sources_;
  std::string text_;
};

// `yaml` as written by the rule writer, as JSON: the same names and values.  Plain
// numbers and booleans stay such, everything else is a string.
// Errors: kInvalidArgument when `yaml` cannot be read.
Result<std::string> YamlToJson(std::string_view yaml);

// "2026-11-29T22:08:33Z", whole seconds.
[[nodiscard]] std::string FormatUtc(WallTime time);

}  // namespace flowguard::admin
