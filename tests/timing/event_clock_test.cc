// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/event_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "lib/timing/sampler.h"
#include "lib/timing/statistics.h"
#include "tests/timing/fake_event_queue.h"

namespace roofbench::timing {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;

constexpr double kTiny = 1e-12;

class EventClockTest : public testing::Test {
 protected:
  // `launches` kernels per step, each `device_seconds` long.
  Samples Sample(double device_seconds, int launches = 1, SampleOptions options = {}) {
    return TakeSamples(
        clock_,
        [&](PhaseMarker&) {
          for (int i = 0; i < launches; ++i) machine_.Launch(device_seconds);
        },
        0, nullptr, options);
  }

  FakeMachine machine_;
  EventClock clock_{std::make_unique<FakeEventQueue>(machine_), [this] { return machine_.host; }};
};

TEST_F(EventClockTest, MarksAreDeviceSecondsSinceTheFirst) {
  clock_.BeginChunk(3);
  clock_.Mark();
  machine_.Launch(1e-3);
  clock_.Mark();
  machine_.Launch(2e-3);
  clock_.Mark();
  EXPECT_THAT(clock_.EndChunk(), ElementsAre(0, DoubleNear(1e-3, kTiny), DoubleNear(3e-3, kTiny)));
}

TEST_F(EventClockTest, WaitsForTheDeviceOnceAChunkAndReadsNothingEarly) {
  const Samples samples = Sample(10e-6, 1, {.warmup_iters = 1, .max_samples = 1000, .exact_samples = true});
  EXPECT_EQ(samples.seconds.size(), 1000);
  EXPECT_EQ(machine_.waits, machine_.sleeps) << "one wait for each sleep, which begins a chunk";
  EXPECT_LT(machine_.waits, 20);
  EXPECT_EQ(machine_.early_reads, 0);
}

TEST_F(EventClockTest, EventsAreMadeOnceAndChunksFitTheQueue) {
  machine_.enqueue_seconds = 2e-6;
  Sample(5e-6, 1, {.max_samples = 5000, .exact_samples = true});
  EXPECT_LE(machine_.created, 500);
  EXPECT_LE(2 * clock_.MaxMarks() + 2, 1000) << "a mark and a launch each, the sleep, and the end";
}

TEST_F(EventClockTest, TheFloorIsMeasuredOnceAndShortStepsShareASample) {
  machine_.record_seconds = 2e-6;
  EXPECT_NEAR(clock_.FloorSeconds(), 2e-6, kTiny);
  const int sleeps = machine_.sleeps;
  EXPECT_NEAR(clock_.FloorSeconds(), 2e-6, kTiny);
  EXPECT_EQ(machine_.sleeps, sleeps);
  const Samples samples = Sample(1e-6);
  EXPECT_GE(samples.steps_per_sample, 180) << "a sample lasts a hundred floors: 200 us with its own event";
  EXPECT_NEAR(Median(samples.seconds), 1e-6, 0.02e-6) << "its event is a hundredth of it";
}

TEST_F(EventClockTest, TheSleepLetsLaunchesQueueUp) {
  // The host is slower than the device, yet work enqueued during the sleep runs back to back.
  machine_.enqueue_seconds = 5e-6;
  clock_.BeginChunk(4);
  clock_.Mark();
  for (int i = 0; i < 3; ++i) {
    machine_.Launch(1e-6);
    clock_.Mark();
  }
  machine_.hertz = 1.5e9;
  const std::span<const double> marks = clock_.EndChunk();
  EXPECT_NEAR(marks.back(), 3e-6, kTiny);
  EXPECT_EQ(clock_.DeviceHertz(), 1.5e9) << "of the sleep";
}

TEST_F(EventClockTest, OneChunkIsHeldAndNotTheNext) {
  machine_.enqueue_seconds = 5e-6;
  const auto seconds_of_late_launches = [&] {
    clock_.BeginChunk(2);
    machine_.host += 1e-3;
    clock_.Mark();
    machine_.Launch(1e-6);
    clock_.Mark();
    return clock_.EndChunk().back();
  };
  EXPECT_TRUE(clock_.HoldNextChunk(2e-3));
  EXPECT_NEAR(seconds_of_late_launches(), 1e-6, kTiny);
  EXPECT_NEAR(seconds_of_late_launches(), 10e-6, kTiny) << "the pace of a launch and a mark";
}

TEST(EventClock, AHostThatIsSlowerThanTheDeviceSetsThePace) {
  const struct {
    const char* meaning;
    double enqueue_seconds;  // of a launch, on the host
    double device_seconds;
    int launches;  // in a step
    double least_ratio;
    double most_ratio;
    double step_seconds;
    double kernel_seconds;
  } table[] = {
      {"a slow host", 5e-6, 1e-6, 20, 1, 10, 20 * 5e-6, 20e-6},
      {"a slow device", 5e-6, 50e-6, 20, 0, 0.2, 1e-3, 0},
      // More launches than the queue holds: the host runs at the device's pace, although it could go faster.
      {"a full queue", 1e-6, 5e-6, 3000, 0, 1, 15e-3, 0},
      {"a slow host that fills the queue while the device waits", 5e-6, 1e-6, 150, 1, 10, 150 * 5e-6, 0},
      {"one long step of a slow host", 5e-6, 1e-6, 20'000, 1, 10, 20'000 * 5e-6, 0},
  };
  for (const auto& row : table) {
    FakeMachine machine;
    machine.enqueue_seconds = row.enqueue_seconds;
    EventClock clock{std::make_unique<FakeEventQueue>(machine), [&] { return machine.host; }};
    const auto step = [&](PhaseMarker&) {
      for (int i = 0; i < row.launches; ++i) machine.Launch(row.device_seconds);
    };
    const Samples samples = TakeSamples(clock, step, 0, nullptr, {.watches_device = true});
    EXPECT_GT(samples.host_enqueue_ratio, row.least_ratio) << row.meaning;
    EXPECT_LE(samples.host_enqueue_ratio, row.most_ratio) << row.meaning;
    EXPECT_NEAR(Median(samples.seconds), row.step_seconds, 0.1 * row.step_seconds) << row.meaning;
    EXPECT_NEAR(samples.kernel_seconds, row.kernel_seconds, kTiny) << row.meaning;
    if (row.least_ratio == 0) {
      EXPECT_THAT(samples.seconds, Each(DoubleNear(row.step_seconds, 1e-9))) << row.meaning;
    }
  }
}

// A step that reads what the device computed keeps the host for as long as the device.
TEST_F(EventClockTest, AWaitIsNotALaunch) {
  double waited = 0;
  const auto wait = [&] {
    waited += std::max(0.0, machine_.device - machine_.host);
    machine_.host = std::max(machine_.host, machine_.device);
  };
  EventClock clock(
      std::make_unique<FakeEventQueue>(machine_), [this] { return machine_.host; },
      [&](const std::function<void()>& step) {
        waited = 0;
        step();
        return waited;
      });
  machine_.enqueue_seconds = 5e-6;
  const auto ratio = [&](double device_seconds) {
    const auto step = [&](PhaseMarker&) {
      for (int i = 0; i < 20; ++i) machine_.Launch(device_seconds);
      wait();
    };
    return TakeSamples(clock, step, 0, nullptr, {}).host_enqueue_ratio;
  };
  EXPECT_LT(ratio(50e-6), 0.2) << "the device's pace";
  EXPECT_GT(ratio(1e-6), 1) << "the host's";
}

TEST_F(EventClockTest, LooksWhileTheDeviceWorks) {
  int looks = 0;
  clock_.WhileBusy([&] {
    ++looks;
    EXPECT_LT(machine_.host, machine_.device);
    machine_.host += 1e-3;  // a driver takes its time
  });
  const Samples samples = Sample(1e-3, 20);
  EXPECT_GT(looks, 0);
  EXPECT_LT(samples.host_enqueue_ratio, 0.2);
  // A device that waits for its launches ends soon after the last one, and is not polled.
  looks = 0;
  machine_.enqueue_seconds = 5e-6;
  EXPECT_GT(Sample(1e-6, 200).host_enqueue_ratio, 1);
  EXPECT_EQ(looks, 0);
}

// A graph records the mark: the host cannot wait for an event that the device alone records.
TEST_F(EventClockTest, AMarkInAGraphIsWaitedForAfterIt) {
  clock_.BeginChunk(2);
  clock_.Mark();
  std::vector<FakeEvent*> in_graph;
  machine_.gathered = &in_graph;
  clock_.Mark();
  machine_.gathered = nullptr;
  machine_.Launch(3e-3);
  *in_graph.at(0) = {.passed = machine_.device, .by_graph = true};
  EXPECT_NEAR(clock_.EndChunk().back(), 3e-3, kTiny);
  EXPECT_EQ(machine_.early_reads, 0);
}

// The stages of LLM.int8() in a token of a model of 32 layers.
TEST_F(EventClockTest, AStepMayEndMorePhasesThanAChunkIsPlannedFor) {
  constexpr int kEnds = 32 * 4 * 6 + 1;
  const auto step = [&](PhaseMarker& marker) {
    for (int i = 0; i < kEnds; ++i) {
      machine_.Launch(2e-6);
      marker.End(i % 2);
    }
  };
  const Samples samples = TakeSamples(clock_, step, 2, nullptr, {.max_samples = 20});
  EXPECT_EQ(samples.steps_per_sample, 1);
  EXPECT_NEAR(Median(samples.seconds), kEnds * 2e-6, 1e-9);
  EXPECT_NEAR(Median(samples.phase_seconds[0]), (kEnds / 2 + 1) * 2e-6, 1e-9);
}

TEST_F(EventClockTest, TooManyMarksAreAMistake) {
  clock_.BeginChunk(1);
  clock_.Mark();
  EXPECT_THROW(clock_.Mark(), std::logic_error);
  EXPECT_EQ(clock_.EndChunk().size(), 1);
}

TEST_F(EventClockTest, AChunkWithoutMarksIsEmpty) {
  clock_.BeginChunk(4);
  EXPECT_TRUE(clock_.EndChunk().empty());
  EXPECT_EQ(machine_.waits, 0);
}

}  // namespace
}  // namespace roofbench::timing
