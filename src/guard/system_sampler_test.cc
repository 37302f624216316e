// SPDX-License-Identifier: Apache-2.0
//
// From files below proc and sys to what system rules say.
#include "guard/system_sampler.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/guard.h"

#include "base/log.h"
#include "base/system_now.h"
#include "testing/engine_fixture.h"
#include "testing/rules.h"
#include "testing/system_root.h"

namespace flowguard::guard {
namespace {

using namespace std::chrono_literals;
using testing::MostCpu;
using testing::MostLoad;
using testing::MostOf;
using testing::RuleOfSystem;

class KeptLog final : public base::LogSink {
 public:
  KeptLog() { base::SetLogSink(this); }
  ~KeptLog() override { base::SetLogSink(nullptr); }
  void Write(base::LogLevel /*level*/, std::string_view message) noexcept override {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(message);
  }
  [[nodiscard]] std::vector<std::string> Lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

class SystemSamplerTest : public testing::EngineFixture {
 protected:
  // What half a processor of eight has done, as cgroup v2 tells it.
  void HalfAProcessor(int64_t used_us) const {
    root_.Unified("/app");
    root_.Group("", "", 0);
    root_.Group("/app", "50000 100000", used_us);
  }
  void Sample(SystemSampler& sampler) {
    sampler.Sample(now_);
    now_ += kSampleEvery;
  }

  testing::SystemRoot root_;
  KeptLog log_;
};

// Fault ruled out: a busy loop in a container is 6 % of its host, and no rule sees it.
TEST_F(SystemSamplerTest, WhatUsesUpItsQuotaOfVersion2IsRefused) {
  Build({RuleOfSystem("machine", MostCpu(0.85))});
  SystemSampler sampler(*engine_, root_.path());
  root_.Load("0.50");
  HalfAProcessor(0);
  Sample(sampler);
  EXPECT_TRUE(Check().allowed());  // the first reading knows nothing
  HalfAProcessor(400'000);
  root_.Process(40);
  root_.Machine(7, 93);
  Sample(sampler);
  EXPECT_DOUBLE_EQ(engine_->LastSystemReading().cpu.value(), 0.8);
  EXPECT_TRUE(Check().allowed());
  HalfAProcessor(900'000);
  root_.Process(90);
  root_.Machine(14, 186);
  Sample(sampler);
  EXPECT_DOUBLE_EQ(engine_->LastSystemReading().cpu.value(), 1);
  EXPECT_EQ(Check().reason, Reason::kSystem);
  HalfAProcessor(900'000);
  root_.Machine(21, 279);
  Sample(sampler);
  EXPECT_TRUE(Check().allowed());
  EXPECT_TRUE(log_.Lines().empty());
}

TEST_F(SystemSamplerTest, WhatUsesUpItsQuotaOfVersion1IsRefused) {
  Build({RuleOfSystem("machine", MostCpu(0.85))});
  SystemSampler sampler(*engine_, root_.path());
  root_.Load("0.50");
  root_.Version1("/app");
  root_.Group1("", -1, 0);
  root_.Group1("/app", 50'000, 0);
  Sample(sampler);
  root_.Group1("/app", 50'000, 450'000'000);
  root_.Process(45);
  root_.Machine(7, 93);
  Sample(sampler);
  EXPECT_DOUBLE_EQ(engine_->LastSystemReading().cpu.value(), 0.9);
  EXPECT_EQ(Check().reason, Reason::kSystem);
}

TEST_F(SystemSamplerTest, WithoutGroupsTheMachineCounts) {
  Build({RuleOfSystem("machine", MostCpu(0.85))});
  SystemSampler sampler(*engine_, root_.path());
  root_.Load("0.50");
  Sample(sampler);
  root_.Machine(90, 10);
  Sample(sampler);
  EXPECT_DOUBLE_EQ(engine_->LastSystemReading().cpu.value(), 0.9);
  EXPECT_EQ(Check().reason, Reason::kSystem);
}

// Fault ruled out: two samples of one moment divide by nothing.
TEST_F(SystemSamplerTest, TwoSamplesOfOneMomentLeaveWhatWasTold) {
  Build({RuleOfSystem("machine", MostCpu(0.85))});
  SystemSampler sampler(*engine_, root_.path());
  root_.Load("1.25");
  sampler.Sample(now_);
  sampler.Sample(now_);
  EXPECT_EQ(engine_->LastSystemReading().cpu, std::nullopt);
  EXPECT_DOUBLE_EQ(engine_->LastSystemReading().load.value(), 1.25);
  now_ += 1s;
  root_.Machine(50, 50);
  sampler.Sample(now_);
  sampler.Sample(now_ + 1ms);
  EXPECT_DOUBLE_EQ(engine_->LastSystemReading().cpu.value(), 0.5);
}

TEST_F(SystemSamplerTest, WhatCannotBeReadRefusesNothingAndIsToldOnce) {
  Build({RuleOfSystem("machine", MostOf({MostCpu(0), MostLoad(0)}))});
  SystemSampler sampler(*engine_, root_.path());
  root_.Load("3.00");
  Sample(sampler);
  root_.Machine(90, 10);
  Sample(sampler);
  EXPECT_EQ(Check().reason, Reason::kSystem);
  root_.Remove("/proc/stat");
  root_.Remove("/proc/loadavg");
  for (int i = 0; i < 5; ++i) {
    Sample(sampler);
    EXPECT_TRUE(Check().allowed());
  }
  EXPECT_EQ(engine_->LastSystemReading(), engine::SystemReading{});
  const std::vector<std::string> lines = log_.Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("cpu is not known"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("/proc/stat"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("load is not known"), std::string::npos) << lines[1];
  // It is told again when it was there meanwhile.
  root_.Load("3.00");
  Sample(sampler);
  root_.Remove("/proc/loadavg");
  Sample(sampler);
  EXPECT_EQ(log_.Lines().size(), 3u);
}

TEST_F(SystemSamplerTest, WhatNoRuleNeedsIsNotMissed) {
  Build({RuleOfSystem("machine", MostLoad(3))});
  SystemSampler sampler(*engine_, root_.path());
  root_.Load("1.00");
  root_.Remove("/proc/stat");
  Sample(sampler);
  Sample(sampler);
  EXPECT_TRUE(log_.Lines().empty());
}

// The thread of a Guard reads by itself, once rules need it.
TEST_F(SystemSamplerTest, AGuardReadsWhatItsRulesLimit) {
  root_.Load("4.50");
  GuardOptions options;
  options.system_root = root_.path();
  auto guard = Guard::Create({}, options);
  ASSERT_TRUE(guard.ok()) << guard.error().message;
  EXPECT_EQ((*guard)->engine().LastSystemReading(), engine::SystemReading{});
  RuleSet set;
  set.rules = {RuleOfSystem("machine", MostLoad(3))};
  ASSERT_TRUE((*guard)->Reload(set).ok());
  const Instant give_up = base::SystemNow() + 10s;
  while (!(*guard)->engine().LastSystemReading().load && base::SystemNow() < give_up)
    std::this_thread::yield();
  EXPECT_EQ((*guard)->engine().LastSystemReading().load, 4.5);
}

TEST_F(SystemSamplerTest, AGuardThatIsToldSoReadsNothing) {
  root_.Load("4.50");
  GuardOptions options;
  options.system_root = root_.path();
  options.read_system = false;
  RuleSet set;
  set.rules = {RuleOfSystem("machine", MostLoad(3))};
  auto guard = Guard::Create(set, options);
  ASSERT_TRUE(guard.ok()) << guard.error().message;
  EXPECT_EQ((*guard)->engine().LastSystemReading(), engine::SystemReading{});
}

}  // namespace
}  // namespace flowguard::guard
