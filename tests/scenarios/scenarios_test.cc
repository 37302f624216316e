// SPDX-License-Identifier: Apache-2.0
//
// Every *.txt beside this file is a test; README.md tells how to read and write one.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenario_runner.h"

namespace flowguard::scenarios {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> Files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(FLOWGUARD_SCENARIOS)) {
    if (entry.path().extension() != ".txt" || entry.path().stem() == "CMakeLists") continue;
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class ScenariosTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ScenariosTest, ComesOutAsWritten) {
  std::ifstream file(GetParam());
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());

  for (const Problem& problem : RunScenario(text, GetParam()))
    ADD_FAILURE_AT(GetParam().c_str(), problem.line) << problem.message;
}

std::string NameOf(const ::testing::TestParamInfo<std::string>& file) {
  return "Of_" + std::filesystem::path(file.param).stem().string();
}

INSTANTIATE_TEST_SUITE_P(Files, ScenariosTest, ::testing::ValuesIn(Files()), NameOf);

// The runner itself must be able to fail, at the right line.

TEST(ScenarioRunnerTest, SaysWhatWasFoundAndWhatWasWantedAtItsLine) {
  const auto problems = RunScenario(
      "load 1/s\nat 0s take -> allow remaining 0\nat 0s take -> allow\nat 1s take -> refuse\n",
      "x");

  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].line, 3);
  EXPECT_THAT(problems[0].message, HasSubstr("found: refuse remaining 0 limit 1 retry 1s"));
  EXPECT_THAT(problems[0].message, HasSubstr("wanted: allow"));
}

TEST(ScenarioRunnerTest, ANumberThatDiffersIsSeen) {
  const auto problems = RunScenario("load 5/s\nat 0s take times 2 -> allow remaining 4\n", "x");

  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].message, HasSubstr("request 2: found: allow remaining 3"));
}

TEST(ScenarioRunnerTest, WordsThatItDoesNotKnowAreNotPassedOver) {
  const auto verb = RunScenario("load 5/s\nat 0s tke\n", "x");
  const auto word = RunScenario("load 5/s\nat 0s take -> allow remainig 4\n", "x");
  const auto asked = RunScenario("load 5/s\nat 0s take twice -> allow\n", "x");

  ASSERT_EQ(verb.size(), 1u);
  EXPECT_THAT(verb[0].message, HasSubstr("found \"tke\"; allowed: take, peek"));
  ASSERT_EQ(word.size(), 1u);
  EXPECT_THAT(word[0].message, HasSubstr("found \"remainig\""));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].line, 2);
}

TEST(ScenarioRunnerTest, BadRulesTimesThatGoBackAndEmptyFilesAreTold) {
  EXPECT_EQ(RunScenario("load 5/x\n", "x").size(), 1u);
  EXPECT_EQ(RunScenario("load 5/s\nat 2s take\nat 1s take\n", "x").size(), 1u);
  EXPECT_EQ(RunScenario("# nothing\n", "x").size(), 1u);
  EXPECT_EQ(RunScenario("load 5/s\nat 0s reload 5/x\n", "x").size(), 1u);
  EXPECT_EQ(RunScenario("load 5/s\nat 0s settle a\n", "x").size(), 1u);
}

}  // namespace
}  // namespace flowguard::scenarios
