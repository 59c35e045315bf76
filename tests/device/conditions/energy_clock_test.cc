// SPDX-License-Identifier: Apache-2.0
#include "lib/device/conditions/energy_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

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

// Limits and waits of a device that is behind another clock.
class DeviceClock : public timing::FakeClock {
 public:
  std::size_t MaxStepMarks() const override { return 70'000; }
  void WhileBusy(const std::function<void()>& look) override { look_ = look; }
  double SecondsWaitedIn(const std::function<void()>& step) override {
    step();
    return 0.25;
  }
  double EnqueueSeconds(double host_seconds) const override { return host_seconds / 2; }

  std::function<void()> look_;
};

TEST(EnergyClock, PassesOnWhatADeviceTells) {
  DeviceClock device;
  const JoulesRead none;
  EnergyClock clock(device, none);
  EXPECT_EQ(clock.MaxMarks(), device.MaxMarks());
  EXPECT_EQ(clock.MaxStepMarks(), 70'000U);
  int looks = 0;
  clock.WhileBusy([&] { ++looks; });
  ASSERT_NE(device.look_, nullptr);
  device.look_();
  EXPECT_EQ(looks, 1);
  int steps = 0;
  EXPECT_EQ(clock.SecondsWaitedIn([&] { ++steps; }), 0.25);
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(clock.EnqueueSeconds(3), 1.5);
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
