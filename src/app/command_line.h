// SPDX-License-Identifier: Apache-2.0
//
// The command line as it was typed: which command, which flags, nothing understood
// yet.  The only file pair that knows the flag library is command_line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flowguard::app {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

// Flags of `run`.  Unset is not the same as empty.
struct RunFlags {
  std::optional<std::string> config;
  std::optional<std::string> rules;
  std::optional<std::string> listen;
  std::optional<std::string> decisions;     // "": its default address
  std::optional<std::string> admin;         // "": its default address; "off"
  std::optional<std::string> token_server;  // "": its default address
  std::optional<std::string> workers;
  std::optional<std::string> drain_timeout;
  std::optional<std::string> cells;
  std::optional<std::string> state_bytes;
  std::optional<std::string> log_level;
  std::optional<std::string> store;
  std::optional<std::vector<std::string>> upstreams;
  std::optional<std::vector<std::string>> limits;
};

enum class Output : uint8_t { kText, kJson };

struct ValidateFlags {
  std::vector<std::string> files;
  Output output = Output::kText;
};

enum class RuleForm : uint8_t { kFlowGuard, kSentinel };

struct ConvertFlags {
  std::vector<std::string> files;
  std::optional<RuleForm> from;  // unset: as the files tell
  RuleForm to = RuleForm::kFlowGuard;
  std::string kind;                      // of Sentinel's rules; empty: as file and members tell
  std::optional<std::string> entity_of;  // the dashboard's form, for this application
  bool drop_invalid = false;
  bool compat = false;  // the set is to count as Sentinel does
};

// The request to be explained, and by which rules.
struct ExplainFlags {
  std::optional<std::string> config;
  std::optional<std::string> rules;
  std::optional<std::string> store;
  std::vector<std::string> limits;
  std::string method = "GET";
  std::string path;
  std::string resource;
  std::string ip = "127.0.0.1";
  std::vector<std::string> headers;     // "name: value"
  std::vector<std::string> dimensions;  // "name=value"
  int64_t cost = 0;
  Output output = Output::kText;
};

struct VersionFlags {
  Output output = Output::kText;
};

enum class Command : uint8_t { kNone, kRun, kValidate, kConvert, kExplain, kVersion, kScript };

struct CommandLine {
  Command command = Command::kNone;  // kNone: all is said; end with exit_code
  int exit_code = kExitOk;
  bool color = false;  // messages may be coloured
  RunFlags run;
  ValidateFlags validate;
  ConvertFlags convert;
  ExplainFlags explain;
  VersionFlags version;
};

// Reads argv.  Help goes to stdout; what is wrong goes to stderr, with exit_code 2.
[[nodiscard]] CommandLine ReadCommandLine(int argc, const char* const* argv);

// Fills flags that were not given from FLOWGUARD_CONFIG, FLOWGUARD_RULES,
// FLOWGUARD_LISTEN, ... .  A variable that is set counts, be it empty; lists are
// separated by ';'.
void ApplyEnvironment(RunFlags& flags);

// "error: ..." and "warning: ..." on stderr.
void PrintError(const std::string& message, bool color);
void PrintWarning(const std::string& message, bool color);

}  // namespace flowguard::app
