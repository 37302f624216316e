// SPDX-License-Identifier: Apache-2.0
#include "engine/generations.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::engine {
namespace {

struct Counted {
  Counted(std::atomic<int>& of, int number) : alive(&of), value(number) { alive->fetch_add(1); }
  ~Counted() {
    value = -1;
    alive->fetch_sub(1);
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  std::atomic<int>* alive;
  int value;
};

TEST(GenerationsTest, AReplacedValueIsFreedWhenNobodyReadsIt) {
  std::atomic<int> alive{0};
  Generations<Counted> values(std::make_unique<Counted>(alive, 0));

  for (int i = 1; i < 100; ++i)
    values.Replace(std::make_unique<Counted>(alive, i));

  EXPECT_EQ(alive.load(), 1);
  EXPECT_EQ(values.Get()->value, 99);
}

TEST(GenerationsTest, AValueThatIsReadStays) {
  std::atomic<int> alive{0};
  Generations<Counted> values(std::make_unique<Counted>(alive, 0));
  {
    const auto pin = values.Get();
    values.Replace(std::make_unique<Counted>(alive, 1));
    values.Replace(std::make_unique<Counted>(alive, 2));
    EXPECT_EQ(pin->value, 0);
    EXPECT_EQ(values.Count(), 2u);
  }

  EXPECT_EQ(values.Count(), 1u);
  EXPECT_EQ(alive.load(), 1);
}

TEST(GenerationsTest, ThreadsThatComeAndGoNeverSeeAFreedValueAndLeakNone) {
  std::atomic<int> alive{0};
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  {
    Generations<Counted> values(std::make_unique<Counted>(alive, 0));
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; ++i) {
      readers.emplace_back([&] {
        while (!stop.load()) {
          std::thread([&] {
            for (int j = 0; j < 200; ++j) {
              const auto pin = values.Get();
              if (pin->value < 0) bad.fetch_add(1);
            }
          }).join();
        }
      });
    }
    for (int i = 1; i <= 3'000; ++i)
      values.Replace(std::make_unique<Counted>(alive, i));
    stop.store(true);
    for (std::thread& reader : readers)
      reader.join();
    EXPECT_EQ(values.Count(), 1u);
    EXPECT_EQ(alive.load(), 1);
  }
  EXPECT_EQ(bad.load(), 0);
  EXPECT_EQ(alive.load(), 0);
}

}  // namespace
}  // namespace flowguard::engine
