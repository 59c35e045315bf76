// SPDX-License-Identifier: Apache-2.0
#include "lib/device/conditions/energy_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "test_paths.h"
#include "tests/device/fake_device.h"
#include "tests/hardware/fake_tree.h"
#include "tests/timing/fake_clock.h"

namespace roofbench {
namespace {

// A machine whose processors have used 2 J, and whose driver reports 1234.5 J for the GPU.
class JoulesOfTest : public hardware::FakeTree {
 protected:
  JoulesOfTest() {
    const std::string zone = "sys/class/powercap/intel-rapl:0/";
    Write(
        {{zone + "name", "package-0"}, {zone + "max_energy_range_uj", "1000000000"}, {zone + "energy_uj", "2000000"}});
  }

  FakeDevice processors_;
  FakeGpuMachine gpu_;
  EnergySources sources_ = {.root = root_, .nvml = ROOFBENCH_FAKE_NVML};
};

TEST_F(JoulesOfTest, ComeFromTheMachineForProcessorsAndFromTheDriverForAGpu) {
  const JoulesRead of_processors = JoulesOf(processors_, sources_);
  ASSERT_TRUE(of_processors);
  EXPECT_THAT(of_processors(), testing::Optional(testing::DoubleNear(2, 1e-9)));
  const JoulesRead of_gpu = JoulesOf(gpu_, sources_);
  ASSERT_TRUE(of_gpu);
  EXPECT_THAT(of_gpu(), testing::Optional(testing::DoubleNear(1234.5, 1e-9)));
}

// The energy of the processors is not that of the GPU.
TEST_F(JoulesOfTest, AreUnknownForAGpuWhoseDriverDoesNotAnswer) {
  gpu_.bus_id = "0000:01:00.0";
  EXPECT_FALSE(JoulesOf(gpu_, sources_)) << "the driver knows another one";
  gpu_.bus_id = "0000:65:00.0";
  sources_.nvml = "/no/such/library.so";
  EXPECT_FALSE(JoulesOf(gpu_, sources_));
}

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
  bool answers_ = true;
  JoulesRead read_ = [this] { return answers_ ? std::optional<double>(joules_) : std::nullopt; };
  timing::FakeClock fake_;
  EnergyClock clock_{fake_, read_, 0.02};
};

TEST_F(EnergyClockTest, CountsChunksAloneSinceTheWarmUp) {
  Chunk(3);
  clock_.Restart();
  Chunk(0.5);
  Between(10);
  Chunk(1);
  EXPECT_THAT(clock_.Watts(), testing::Optional(testing::DoubleNear(50, 1e-9)));
}

// Limits and waits of a device that is wrapped in another clock.
class DeviceClock : public timing::FakeClock {
 public:
  std::size_t MaxStepMarks() const override { return 70'000; }
  void WhileBusy(const std::function<void()>& look) override { look_ = look; }
  double SecondsWaitedIn(const std::function<void()>& step) override {
    step();
    return 0.25;
  }
  bool HoldNextChunk(double seconds) override { return seconds > 1; }
  double EnqueueSeconds(double host_seconds) const override { return host_seconds / 2; }

  std::function<void()> look_;
};

TEST(EnergyClock, ForwardsToTheDevicesClock) {
  DeviceClock device;
  const JoulesRead none;
  EnergyClock clock(device, none, 0);
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
  EXPECT_TRUE(clock.HoldNextChunk(2));
  EXPECT_FALSE(clock.HoldNextChunk(1));
  device.hertz = 2e9;
  EXPECT_EQ(clock.DeviceHertz(), 2e9);
}

TEST_F(EnergyClockTest, UnknownEnergyIsNotGuessed) {
  Chunk(0.001);
  EXPECT_EQ(clock_.Watts(), std::nullopt) << "a counter has steps of a millisecond";
  Chunk(1);
  answers_ = false;
  Chunk(1);
  EXPECT_EQ(clock_.Watts(), std::nullopt);
  const JoulesRead none;
  EnergyClock without(fake_, none, 0);
  without.BeginChunk(1);
  without.Mark();
  without.EndChunk();
  EXPECT_EQ(without.Watts(), std::nullopt);
}

}  // namespace
}  // namespace roofbench
