// SPDX-License-Identifier: Apache-2.0
#include "lib/device/conditions/energy_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/timing/fake_clock.h"

namespace roofbench {
namespace {

// Takes 20 W between chunks, and 50 W in them.
class EnergyClockTest : public testing::Test {
 protected:
  void Chunk(double seconds) {
    clock_.BeginChunk(2);
    clock_.Mark();
    fake_.Advance(seconds);
    joules_ += 50 * seconds;
    clock_.Mark();
    clock_.EndChunk();
  }
  void Between(double seconds) {
    fake_.Advance(seconds);
    joules_ += 20 * seconds;
  }

  double joules_ = 1000;
  bool tells_ = true;
  JoulesRead read_ = [this] { return tells_ ? std::optional<double>(joules_) : std::nullopt; };
  timing::FakeClock fake_;
  EnergyClock clock_{fake_, read_};
};

TEST_F(EnergyClockTest, CountsChunksAloneSinceTheWarmUp) {
  Chunk(3);
  clock_.Restart();
  Chunk(0.5);
  Between(10);
  Chunk(1);
  EXPECT_THAT(clock_.Watts(), testing::Optional(testing::DoubleNear(50, 1e-9)));
}

TEST_F(EnergyClockTest, WhatIsNotToldIsNotGuessed) {
  Chunk(0.001);
  EXPECT_EQ(clock_.Watts(), std::nullopt) << "a counter has steps of a millisecond";
  Chunk(1);
  tells_ = false;
  Chunk(1);
  EXPECT_EQ(clock_.Watts(), std::nullopt);
  const JoulesRead none;
  EnergyClock without(fake_, none);
  without.BeginChunk(1);
  without.Mark();
  without.EndChunk();
  EXPECT_EQ(without.Watts(), std::nullopt);
}

}  // namespace
}  // namespace roofbench
