// SPDX-License-Identifier: Apache-2.0
#include "lib/run/slowest_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/timing/sampler.h"
#include "lib/timing/statistics.h"
#include "tests/ranks/forwarding_group.h"
#include "tests/ranks/in_threads.h"
#include "tests/timing/fake_clock.h"

namespace roofbench {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;

constexpr double kTiny = 1e-12;

class SlowestClockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ranks::GlooIsBuilt().ok()) GTEST_SKIP() << ranks::GlooIsBuilt();
  }
};

// Rank 0 is first at the end of phase 0 and last at the end of the step.
TEST_F(SlowestClockTest, EveryRankReadsTheTimesOfTheSlowest) {
  ranks::InGroup(2, [](ranks::Group& group) {
    timing::FakeClock own;
    own.Advance(100.0 * group.rank());  // no rank knows the others' host time
    SlowestClock clock(own, group, {}, [] { return 7.0; });
    const double phases[2][2] = {{1e-3, 5e-3}, {2e-3, 1e-3}};
    const timing::Step step = [&](timing::PhaseMarker& marker) {
      own.Advance(phases[group.rank()][0]);
      marker.End(0);
      own.Advance(phases[group.rank()][1]);
      marker.End(1);
    };
    timing::SampleOptions options;
    options.roof_share = 0;
    options.before_sample = [&](int64_t /*steps*/) {
      own.Advance(1e-2 * group.rank());  // untimed
      clock.BeginSample();
    };
    const timing::Samples samples = timing::TakeSamples(clock, step, 2, nullptr, options);
    EXPECT_THAT(samples.seconds, Each(DoubleNear(6e-3, kTiny)));
    EXPECT_THAT(samples.phase_seconds[0], Each(DoubleNear(2e-3, kTiny)));
    EXPECT_THAT(samples.phase_seconds[1], Each(DoubleNear(4e-3, kTiny)));
    EXPECT_NEAR(clock.SkewSeconds(), 3e-3, kTiny);
    EXPECT_EQ(clock.LastRank(), 0);
    EXPECT_DOUBLE_EQ(clock.ProcessCpuSeconds(), own.ProcessCpuSeconds() + 7);
    clock.Restart();
    EXPECT_EQ(clock.SkewSeconds(), 0);
  });
}

// Ranks of a GPU, which meet at times of their own.
class MeetingGroup final : public ranks::ForwardingGroup {
 public:
  MeetingGroup(ranks::Group& group, timing::FakeClock& clock)
      : ForwardingGroup(std::shared_ptr<ranks::Group>(std::shared_ptr<ranks::Group>(), &group)), clock_(clock) {}
  void Barrier() override { ADD_FAILURE() << "the host waits"; }
  void Meet() override { clock_.Advance(1e-3 * (1 + rank())); }

 private:
  timing::FakeClock& clock_;
};

TEST_F(SlowestClockTest, SamplesBeginWhereDevicesMeet) {
  ranks::InGroup(2, [](ranks::Group& group) {
    timing::FakeClock own;
    MeetingGroup meeting(group, own);
    SlowestClock clock(own, meeting, {}, [] { return 0.0; });
    EXPECT_NEAR(clock.FloorSeconds(), 2e-3, kTiny) << "of the slowest";
    timing::SampleOptions options;
    options.roof_share = 0;
    options.before_sample = [&](int64_t /*steps*/) { clock.BeginSample(); };
    const timing::Step step = [&](timing::PhaseMarker&) { own.Advance(5e-3); };
    EXPECT_THAT(timing::TakeSamples(clock, step, 0, nullptr, options).seconds, Each(DoubleNear(5e-3, kTiny)));
  });
}

// A chunk of one rank alone would wait for the others'.
TEST_F(SlowestClockTest, NoRankHasChunksOfItsOwn) {
  class DeviceClock final : public timing::FakeClock {
   public:
    bool HoldNextChunk(double /*seconds*/) override { return true; }
  };
  ranks::InGroup(1, [](ranks::Group& group) {
    DeviceClock own;
    own.hertz = 2e9;
    SlowestClock clock(own, group, {}, [] { return 0.0; });
    EXPECT_FALSE(clock.HoldNextChunk(1));
    EXPECT_EQ(clock.DeviceHertz(), 0);
  });
}

TEST_F(SlowestClockTest, AllRanksStopWhenRankZeroWishesTo) {
  std::vector<std::size_t> taken(2);
  ranks::InGroup(2, [&](ranks::Group& group) {
    timing::FakeClock own;
    int polls = 0;
    SlowestClock clock(
        own, group, [&] { return group.rank() == 0 && ++polls > 6; }, [] { return 0.0; });
    timing::SampleOptions options;
    options.before_sample = [&](int64_t /*steps*/) { clock.BeginSample(); };
    options.interrupted = [&] { return clock.interrupted(); };
    options.exact_samples = true;
    options.max_samples = 100'000;
    // Another number of milliseconds on each rank and in each step: only rank 0's time may count.
    int steps = 0;
    const timing::Step step = [&](timing::PhaseMarker&) { own.Advance(1e-3 * (1 + ++steps % (2 + group.rank()))); };
    const timing::Samples samples = timing::TakeSamples(clock, step, 0, nullptr, options);
    EXPECT_EQ(samples.stop, timing::StopReason::kInterrupted);
    taken[static_cast<std::size_t>(group.rank())] = samples.seconds.size();
  });
  EXPECT_EQ(taken[0], taken[1]);
}

}  // namespace
}  // namespace roofbench
