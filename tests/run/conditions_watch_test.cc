// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/conditions/conditions_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <set>

#include "lib/run/session.h"
#include "tests/run/simple_case.h"

namespace roofbench {
namespace {

class BusyClock : public timing::FakeClock {
 public:
  void WhileBusy(const std::function<void()>& look) override { busy = look; }
  std::function<void()> busy;
};

class MomentaryDevice : public FakeDevice {
 public:
  bool ConditionsAreMomentary() const override { return true; }
  timing::Clock& clock() override { return busy_clock; }
  BusyClock busy_clock;
};

TEST(ConditionsWatch, KeepsTheWorstOfTheMoments) {
  MomentaryDevice device;
  device.conditions.clock_hertz = 1e9;
  hardware::ConditionsWatch watch = WatchConditions(device);
  device.conditions.thermal = true;
  device.conditions.clock_hertz = 2e9;
  watch.Poll();
  device.conditions.thermal = false;
  device.conditions.clock_hertz = 0.5e9;
  const MeasuredConditions seen = watch.Finish();
  EXPECT_TRUE(seen.throttled);
  EXPECT_EQ(seen.power_capped, false);
  EXPECT_EQ(seen.clock_hertz, 2e9);
  EXPECT_EQ(seen.watts, std::nullopt);
}

// Between two chunks the device is idle, and its clock and power fall at once, or it boosts for nothing.
TEST(ConditionsWatch, ClockAndPowerAreThoseUnderLoad) {
  MomentaryDevice device;
  {
    hardware::ConditionsWatch watch = WatchConditions(device);
    device.conditions.clock_hertz = 2e9;
    device.conditions.watts = 80;
    watch.Poll();
    // A clock that begins high and falls as the chip warms: the largest reading is of hardly any of the samples.
    for (const auto& [hertz, watts] : {std::pair(1.9e9, 520.0), {1.7e9, 690.0}, {1.5e9, 695.0}}) {
      device.conditions.clock_hertz = hertz;
      device.conditions.watts = watts;
      device.busy_clock.busy();
    }
    device.conditions.clock_hertz = 2e9;
    device.conditions.watts = 700;
    watch.Poll();
    const MeasuredConditions seen = watch.Finish();
    EXPECT_EQ(seen.clock_hertz, 1.7e9);
    EXPECT_EQ(seen.watts, 690);
  }
  EXPECT_FALSE(device.busy_clock.busy) << "the callback is removed";
}

TEST(ConditionsWatch, CountersShowWhatNoMomentShowed) {
  FakeDevice device;
  device.conditions.clock_hertz = 1e9;
  device.conditions.thermal_seconds = 1.0;
  device.conditions.power_cap_seconds = 2.0;
  hardware::ConditionsWatch watch = WatchConditions(device);
  device.conditions.thermal_seconds = 1.5;
  device.conditions.power_cap_seconds = 2.5;
  const MeasuredConditions seen = watch.Finish();
  EXPECT_TRUE(seen.throttled);
  EXPECT_EQ(seen.power_capped, true);
}

class MovingDevice : public FakeDevice {
 public:
  std::optional<double> HandoverSeconds() const override { return handover; }
  std::optional<double> handover = 60e-9;
};

// Near and apart, in either order; scatter is no move, and neither is a device that cannot say.
TEST(ConditionsWatch, KnowsWhetherTheProcessorsMoved) {
  MovingDevice device;
  const auto after = [&](std::optional<double> before, std::optional<double> then) {
    device.handover = before;
    hardware::ConditionsWatch watch = WatchConditions(device);
    device.handover = then;
    return watch.Finish();
  };
  EXPECT_TRUE(after(60e-9, 270e-9).moved);
  EXPECT_TRUE(after(270e-9, 60e-9).moved);
  EXPECT_EQ(after(60e-9, 270e-9).handover_seconds, 270e-9);
  EXPECT_FALSE(after(60e-9, 75e-9).moved);
  EXPECT_FALSE(after(60e-9, std::nullopt).moved);
  EXPECT_FALSE(after(std::nullopt, 60e-9).moved);
}

TEST(ConditionsWatch, AProcessorHasNoPowerCap) {
  FakeDevice device;
  EXPECT_EQ(WatchConditions(device).Finish().power_capped, std::nullopt);
}

struct HotRun {
  Outcome outcome;
  int pauses = 0;
  std::set<int64_t> measurements;  // that steps were samples of
};

// Heat slows the device down for the first `hot` measurements.
HotRun RunHot(int hot) {
  FakeDevice device;
  RunOptions options;
  options.reference = "a100-sxm4-40gb";
  HotRun run;
  const Family family = TestFamily(device, 1e-3).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
    Case built = CaseOf(in.Randn({4}), [] {});
    built.step = [&](timing::PhaseMarker& marker) {
      device.fake_clock.Advance(1e-3);
      if (device.pauses < hot) ++device.conditions.throttle_events;
      if (marker.Measurement() != 0) run.measurements.insert(marker.Measurement());
    };
    return built;
  });
  run.outcome = Session(options, device, {PlannedOf(family)}, nullptr).Run(0);
  run.pauses = device.pauses;
  return run;
}

// Of a case that prepares for so long before each of its samples.
double UntimedMs(std::chrono::microseconds time) {
  FakeDevice device;
  RunOptions options;
  options.reference = "a100-sxm4-40gb";
  options.sampling.max_samples = 20;
  const Family family = TestFamily(device, 1e-3).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
    Case built = CaseOf(in.Randn({4}), [&] { device.fake_clock.Advance(1e-3); });
    built.prepare = [time] {
      for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) continue;
    };
    return built;
  });
  // A cold one would prepare thousands of copies.
  return Counter(Session(options, device, {PlannedOf(family, {{"cache", kWarm}})}, nullptr).Run(0), "untimed_ms");
}

TEST(Preparation, IsNamedWhereItDoesMoreThanRestore) {
  EXPECT_GE(UntimedMs(std::chrono::microseconds(500)), 0.5);
  EXPECT_EQ(UntimedMs(std::chrono::microseconds(0)), -1) << "absent";
}

TEST(ThermalSlowdown, IsMeasuredAgainAfterAPauseAndFlaggedIfItStays) {
  const HotRun once = RunHot(1);
  EXPECT_FALSE(once.outcome.conditions.throttled);
  EXPECT_EQ(once.pauses, 1);
  EXPECT_THAT(once.measurements, testing::SizeIs(2)) << "what steps time themselves is of one alone";
  const HotRun always = RunHot(100);
  EXPECT_TRUE(always.outcome.conditions.throttled);
  EXPECT_EQ(always.pauses, 2);
}

}  // namespace
}  // namespace roofbench
