// SPDX-License-Identifier: Apache-2.0
//
// The flowguard command.
//
//   flowguard run        settings.h     flags, environment, file, defaults
//                        server.h       engine, workers, control loop
//                          worker.h       one loop: gateway, decision API
//                          rule_keeper.h  loads, watches and reloads the rules
//   flowguard validate   validate.cc    checks rule and configuration files
//   flowguard convert    convert.cc     Sentinel's rules to FlowGuard's, and back
//   flowguard explain    explain.cc     which rules match a request, and the verdict
//   flowguard version
//   flowguard script     script.cc      the sliding log for other programs
#include "app/command_line.h"
#include "app/commands.h"

namespace app = flowguard::app;

int main(int argc, char** argv) {
  const app::CommandLine line = app::ReadCommandLine(argc, argv);
  switch (line.command) {
    case app::Command::kRun:
      return app::Run(line.run, line.color);
    case app::Command::kValidate:
      return app::Validate(line.validate, line.color);
    case app::Command::kConvert:
      return app::Convert(line.convert, line.color);
    case app::Command::kExplain:
      return app::Explain(line.explain, line.color);
    case app::Command::kVersion:
      return app::Version(line.version);
    case app::Command::kScript:
      return app::Script();
    case app::Command::kNone:
      break;
  }
  return line.exit_code;
}
