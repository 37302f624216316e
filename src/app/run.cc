// SPDX-License-Identifier: Apache-2.0
//
// `flowguard run` and `flowguard version`.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "flowguard/clock.h"

#include "app/commands.h"
#include "app/log.h"
#include "app/server.h"
#include "app/settings.h"
#include "app/signals.h"
#include "app/version.h"
#include "base/log.h"
#include "text/json_writer.h"

namespace flowguard::app {

int Run(RunFlags flags, bool color) {
  const auto fail = [color](const Error& error, int exit_code) {
    PrintError(error.message, color);
    return exit_code;
  };
  // Flags, then environment, then file, then defaults.
  ApplyEnvironment(flags);
  const Result<RunOptions> options = ReadRunOptions(flags);
  if (!options.ok()) return fail(options.error(), kExitUsage);
  Result<Settings> settings = MakeSettings(*options);
  if (!settings.ok()) {
    const bool usage = settings.error().code == ErrorCode::kFailedPrecondition;
    return fail(settings.error(), usage ? kExitUsage : kExitFailure);
  }
  const StderrLog log(settings->log_level, color);
  for (const std::string& warning : settings->warnings) {
    base::Log(base::LogLevel::kWarn, warning);
  }

  // The rules, the doors, and the lines that tell where these are.
  BlockReloadSignal();
  const Result<std::unique_ptr<Server>> server =
      Server::Create(std::move(settings).value(), SystemClock());
  if (!server.ok()) return fail(server.error(), kExitFailure);
  BlockSignals();
  const Result<Server::OpenDoors> doors = (*server)->Open();
  if (!doors.ok()) return fail(doors.error(), kExitFailure);
  for (const auto& [name, address] : *doors) {
    std::printf("%s listening on %s\n", name.c_str(), address.ToString().c_str());
  }
  static_cast<void>(std::fflush(stdout));  // nobody may read it, and it serves all the same

  const int exit_code = (*server)->Run() ? kExitOk : kExitFailure;
  // Told to stop, it stops: large rule sets take seconds, and are read again at the next
  // start.
  if ((*server)->loading()) std::_Exit(exit_code);
  return exit_code;
}

int Version(const VersionFlags& flags) {
  if (flags.output == Output::kJson) {
    std::string line;
    text::JsonWriter(line).BeginObject().Key("version").String(kVersion).EndObject();
    std::printf("%s\n", line.c_str());
  } else {
    std::printf("flowguard %s\n", kVersion);
  }
  return kExitOk;
}

}  // namespace flowguard::app
