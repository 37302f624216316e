// SPDX-License-Identifier: Apache-2.0
//
// The files under examples/ that the documents refer to are read as they are.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "flowguard/rules_text.h"

#include "dialects/config_yaml.h"
#include "dialects/rules_writer.h"
#include "dialects/same_rules.h"
#include "rules/compile.h"

namespace flowguard::dialects {
namespace {

std::string Example(const std::string& name) {
  std::ifstream stream(std::filesystem::path(FLOWGUARD_SOURCE_DIR) / "examples" / name);
  EXPECT_TRUE(stream.is_open()) << name;
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(ExamplesTest, RulesAreReadAndCompiled) {
  const auto parsed = ParseRules(Example("rules.yaml"), "rules.yaml");

  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_TRUE(parsed->warnings.empty());
  EXPECT_EQ(parsed->rules.rules.size(), 10u);
  const auto table = rules::Compile(parsed->rules, {});
  EXPECT_TRUE(table.ok()) << table.error().message;
}

TEST(ExamplesTest, RulesReadBackFromWhatIsWritten) {
  for (const char* name : {"rules.yaml", "default-breakers.yaml"}) {
    const auto parsed = ParseRules(Example(name), name);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;

    const auto again = ParseRules(WriteRules(parsed->rules), "written.yaml");

    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_TRUE(SameRules(parsed->rules, again->rules)) << name;
  }
}

TEST(ExamplesTest, ServerConfigurationIsRead) {
  const auto parsed = ParseConfig(Example("flowguard.yaml"), "flowguard.yaml");

  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_TRUE(parsed->warnings.empty());
  EXPECT_EQ(parsed->config.rules_path, "rules.yaml");
}

}  // namespace
}  // namespace flowguard::dialects
