// SPDX-License-Identifier: Apache-2.0
#include "app/command_line.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "app/version.h"

namespace flowguard::app {
namespace {

constexpr const char* kRunExamples =
    "Examples:\n"
    "  flowguard run --upstream http://127.0.0.1:3000 --limit '100/s per ip'\n"
    "  flowguard run --config flowguard.yaml\n"
    "  flowguard run --decisions --rules rules.yaml\n"
    "  flowguard run --token-server 10.0.0.5:18730 --rules cluster-flow.json\n\n"
    "Each flag but --no-color can be given as an environment variable: FLOWGUARD_UPSTREAM, ...;\n"
    "lists are separated by ';'.  Flags go before variables, variables before the file.\n"
    "SIGHUP reloads the rules; SIGTERM drains and ends.";

constexpr const char* kConvertExamples =
    "What changes its meaning is told on stderr, a line each.  Examples:\n"
    "  flowguard convert --to flowguard flow-rules.json degrade-rules.json > rules.yaml\n"
    "  flowguard convert --to sentinel --kind flow rules.yaml";

constexpr const char* kExplainExamples =
    "Examples:\n"
    "  flowguard explain --rules rules.yaml --method POST --path /orders --ip 192.0.2.7\n"
    "  flowguard explain --limit '100/s per user' --path / --dim user=u42 --output json";

constexpr const char* kScriptContract =
    "  KEYS[1]  the log, a sorted set: request id -> its instant in ms\n"
    "  ARGV     window in ms, most requests in it, the request's unique id\n"
    "  Reply    allowed (0 or 1), requests in the window, the server's clock in ms\n\n"
    "Example:\n"
    "  flowguard script > sliding_log.lua\n"
    "  redis-cli --eval sliding_log.lua 'rl:{order:create}:tenant:1001' , 1000 500 $(uuidgen)";

// Environment variable by name; nothing when it is not set.
std::optional<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const size_t at = text.find(';');
    const std::string_view item = text.substr(0, at);
    if (item.find_first_not_of(' ') != std::string_view::npos) items.emplace_back(item);
    text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  }
  return items;
}

bool WantsColor(bool refused) {
  const auto term = Variable("TERM");
  return !refused && !Variable("NO_COLOR") && term != "dumb" && isatty(STDERR_FILENO) == 1;
}

void AddOutput(CLI::App& command, Output& output) {
  static const std::map<std::string, Output> forms = {{"text", Output::kText},
                                                      {"json", Output::kJson}};
  command.add_option("--output", output, "text (default) or json")
      ->transform(CLI::CheckedTransformer(forms))
      ->option_text("FORM");
}

void AddRun(CLI::App& app, RunFlags& flags) {
  CLI::App& run =
      *app.add_subcommand("run", "Run the gateway, the decision API, the token server, or several");
  run.footer(kRunExamples);
  run.add_option("--config", flags.config, "Configuration file (flowguard.yaml)")
      ->option_text("FILE");
  run.add_option("--rules", flags.rules, "Rule file; watched for changes")->option_text("FILE");
  run.add_option("--upstream", flags.upstreams,
                 "Upstream of the gateway, http://HOST:PORT; repeatable")
      ->allow_extra_args(false)
      ->option_text("URL");
  run.add_option(
         "--limit", flags.limits,
         "A rule: N/unit [burst B] [per DIM[,DIM]] [algorithm NAME] [on \"METHOD /route\"]; "
         "repeatable")
      ->allow_extra_args(false)
      ->option_text("RULE");
  run.add_option("--listen", flags.listen, "Gateway address (0.0.0.0:8080); port 0: any")
      ->option_text("ADDR:PORT");
  run.add_option("--decisions", flags.decisions, "Open the decision API (127.0.0.1:8081)")
      ->expected(0, 1)
      ->default_str("")
      ->option_text("[ADDR:PORT]");
  run.add_option("--admin", flags.admin,
                 "Metrics, health and rules (127.0.0.1:8082; open by itself with --upstream); "
                 "\"off\" to shut it")
      ->expected(0, 1)
      ->default_str("")
      ->option_text("[ADDR:PORT]");
  run.add_option("--token-server", flags.token_server,
                 "Open the token server for Sentinel's cluster clients (127.0.0.1:18730)")
      ->expected(0, 1)
      ->default_str("")
      ->option_text("[ADDR:PORT]");
  run.add_option("--workers", flags.workers, "Event loops; auto (default): one a core")
      ->option_text("N");
  run.add_option("--drain-timeout", flags.drain_timeout,
                 "How long requests in progress may take after SIGTERM (30s)")
      ->option_text("DURATION");
  run.add_option("--cells", flags.cells, "Live keys that are never forgotten (1_000_000)")
      ->option_text("N");
  run.add_option("--state-bytes", flags.state_bytes,
                 "Memory of the states that are larger than a cell (64MiB)")
      ->option_text("SIZE");
  run.add_option("--store", flags.store,
                 "Where shared rules count: redis://HOST:PORT, rediss://, unix://PATH, "
                 "redis-sentinel://, redis-cluster://")
      ->option_text("URL");
  run.add_option("--log-level", flags.log_level, "debug, info (default), warn or error")
      ->option_text("LEVEL");
}

void AddValidate(CLI::App& app, ValidateFlags& flags) {
  CLI::App& validate = *app.add_subcommand("validate", "Check rule files and configuration files");
  validate.add_option("files", flags.files, "Files to check")->required()->option_text("FILE...");
  AddOutput(validate, flags.output);
}

void AddConvert(CLI::App& app, ConvertFlags& flags) {
  static const std::map<std::string, RuleForm> forms = {{"flowguard", RuleForm::kFlowGuard},
                                                        {"sentinel", RuleForm::kSentinel}};
  CLI::App& convert =
      *app.add_subcommand("convert", "Convert rules: Sentinel's JSON, FlowGuard's YAML");
  convert.footer(kConvertExamples);
  convert.add_option("files", flags.files, "Rule files; of Sentinel's all become one set")
      ->required()
      ->option_text("FILE...");
  convert.add_option("--from", flags.from, "flowguard or sentinel (default: as the files tell)")
      ->transform(CLI::CheckedTransformer(forms))
      ->option_text("FORM");
  convert.add_option("--to", flags.to, "flowguard or sentinel")
      ->required()
      ->transform(CLI::CheckedTransformer(forms))
      ->option_text("FORM");
  convert
      .add_option("--kind", flags.kind,
                  "Kind of Sentinel's rules: flow, degrade, system, authority, param-flow, "
                  "gateway-flow, api-definition")
      ->check(CLI::IsMember({"flow", "degrade", "system", "authority", "param-flow", "gateway-flow",
                             "api-definition"}))
      ->option_text("KIND");
  convert
      .add_option("--entity", flags.entity_of,
                  "Write Sentinel's rules as its dashboard stores them for this application")
      ->option_text("APP");
  convert.add_flag("--drop-invalid", flags.drop_invalid,
                   "Drop rules of Sentinel's that are not valid, as it does, with a warning");
  convert.add_flag("--compat", flags.compat,
                   "Towards flowguard: rules that count as Sentinel does (compat: sentinel)");
}

void AddExplain(CLI::App& app, ExplainFlags& flags) {
  CLI::App& explain = *app.add_subcommand(
      "explain", "Show which rules match a request, by which key, and the verdict");
  explain.footer(kExplainExamples);
  explain.add_option("--config", flags.config, "Configuration file: its rules, store, and paths")
      ->option_text("FILE");
  explain.add_option("--rules", flags.rules, "Rule file")->option_text("FILE");
  explain.add_option("--limit", flags.limits, "A rule, as for run; repeatable")
      ->allow_extra_args(false)
      ->option_text("RULE");
  explain
      .add_option("--store", flags.store,
                  "Look into this Redis for what shared rules hold now; nothing is taken")
      ->option_text("URL");
  explain.add_option("--method", flags.method, "HTTP method (GET)")->option_text("METHOD");
  explain.add_option("--path", flags.path, "Path with query")->option_text("PATH");
  explain.add_option("--resource", flags.resource, "Resource name")->option_text("NAME");
  explain.add_option("--ip", flags.ip, "Client address (127.0.0.1)")->option_text("ADDR");
  explain.add_option("--header", flags.headers, "Request header; repeatable")
      ->allow_extra_args(false)
      ->option_text("NAME:VALUE");
  explain.add_option("--dim", flags.dimensions, "Dimension value; repeatable")
      ->allow_extra_args(false)
      ->option_text("NAME=VALUE");
  explain.add_option("--cost", flags.cost, "Units (default: what each rule reserves)")
      ->check(CLI::NonNegativeNumber)
      ->option_text("N");
  AddOutput(explain, flags.output);
}

Command Chosen(const CLI::App& app) {
  if (app.got_subcommand("run")) return Command::kRun;
  if (app.got_subcommand("validate")) return Command::kValidate;
  if (app.got_subcommand("convert")) return Command::kConvert;
  if (app.got_subcommand("explain")) return Command::kExplain;
  if (app.got_subcommand("version")) return Command::kVersion;
  if (app.got_subcommand("script")) return Command::kScript;
  return Command::kNone;
}

}  // namespace

CommandLine ReadCommandLine(int argc, const char* const* argv) {
  CommandLine line;
  CLI::App app("Flow control for services: limits, concurrency, access.", "flowguard");
  bool no_color = false;
  app.add_flag("--no-color", no_color, "No colours in messages (also: NO_COLOR)");
  app.set_version_flag("--version", std::string("flowguard ") + kVersion);
  app.require_subcommand(1);
  AddRun(app, line.run);
  AddValidate(app, line.validate);
  AddConvert(app, line.convert);
  AddExplain(app, line.explain);
  AddOutput(*app.add_subcommand("version", "Show the version"), line.version.output);
  app.add_subcommand("script", "Print the sliding log in Lua that other programs run in Redis")
      ->footer(kScriptContract);
  try {
    app.parse(argc, argv);
    line.command = Chosen(app);
    line.color = WantsColor(no_color);
  } catch (const CLI::ParseError& fault) {
    // Help and --version come this way too, with code 0.
    line.color = WantsColor(no_color);
    if (fault.get_exit_code() == 0) {
      line.exit_code = app.exit(fault);
    } else {
      PrintError(fault.what(), line.color);
      static_cast<void>(std::fputs("Run with --help for more information.\n", stderr));
      line.exit_code = kExitUsage;
    }
  }
  return line;
}

void ApplyEnvironment(RunFlags& flags) {
  const auto one = [](std::optional<std::string>& flag, const char* name) {
    if (!flag) flag = Variable(name);
  };
  const auto list = [](std::optional<std::vector<std::string>>& flag, const char* name) {
    if (flag) return;
    if (const auto value = Variable(name)) flag = SplitList(*value);
  };
  one(flags.config, "FLOWGUARD_CONFIG");
  one(flags.rules, "FLOWGUARD_RULES");
  one(flags.listen, "FLOWGUARD_LISTEN");
  one(flags.decisions, "FLOWGUARD_DECISIONS");
  one(flags.admin, "FLOWGUARD_ADMIN");
  one(flags.token_server, "FLOWGUARD_TOKEN_SERVER");
  one(flags.workers, "FLOWGUARD_WORKERS");
  one(flags.drain_timeout, "FLOWGUARD_DRAIN_TIMEOUT");
  one(flags.cells, "FLOWGUARD_CELLS");
  one(flags.state_bytes, "FLOWGUARD_STATE_BYTES");
  one(flags.log_level, "FLOWGUARD_LOG_LEVEL");
  one(flags.store, "FLOWGUARD_STORE");
  list(flags.upstreams, "FLOWGUARD_UPSTREAM");
  list(flags.limits, "FLOWGUARD_LIMIT");
}

void PrintError(const std::string& message, bool color) {
  // Where else should it say that standard error takes nothing?
  static_cast<void>(std::fprintf(stderr, "%serror:%s %s\n", color ? "\x1b[1;31m" : "",
                                 color ? "\x1b[0m" : "", message.c_str()));
}

void PrintWarning(const std::string& message, bool color) {
  static_cast<void>(std::fprintf(stderr, "%swarning:%s %s\n", color ? "\x1b[1;33m" : "",
                                 color ? "\x1b[0m" : "", message.c_str()));
}

}  // namespace flowguard::app
