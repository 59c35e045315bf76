// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/timing/statistics.h"
#include "tests/timing/fake_clock.h"

namespace roofbench::timing {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

constexpr double kTight = 1e-9;  // relative

SampleOptions Exactly(int64_t samples) { return {.max_samples = samples, .exact_samples = true}; }

// Steps that all take the same time, under another clock.
Samples SampleUnder(const FakeClock::Traits& traits, double seconds, const SampleOptions& options) {
  FakeClock clock(traits);
  return TakeSamples(
      clock, [&](PhaseMarker&) { clock.Advance(seconds); }, 0, {}, options);
}

// A case on a processor: step i takes duration(i) seconds, and the log shows each step as 's' and each probe as 'r'.
class SamplerTest : public testing::Test {
 protected:
  Samples Sample(const std::function<double(int64_t call)>& duration, const SampleOptions& options) {
    const Step step = [&](PhaseMarker&) {
      clock_.log += 's';
      clock_.Advance(duration(calls_++));
    };
    return TakeSamples(clock_, step, 0, roof_, options);
  }

  // Steps that all take the same time.
  Samples Sample(double seconds, const SampleOptions& options) {
    return Sample([seconds](int64_t) { return seconds; }, options);
  }

  // Probe i lasts as long as asked and finds the rate i + 1.
  void UseRoof() {
    roof_ = [this](double seconds) {
      EXPECT_FALSE(clock_.InChunk());
      clock_.log += 'r';
      clock_.Advance(seconds, kRoofProcessors);
      probes_.push_back(seconds);
      return static_cast<double>(probes_.size());
    };
  }

  // Steps before the first sample, with those that only restore the caches, when all samples are one chunk.
  std::size_t StepsBeforeLastChunk() const {
    const std::string before = clock_.log.substr(0, clock_.log.rfind('('));
    return static_cast<std::size_t>(std::count(before.begin(), before.end(), 's'));
  }

  static constexpr double kRoofProcessors = 16;

  FakeClock clock_;
  RoofProbe roof_;
  std::vector<double> probes_;
  int64_t calls_ = 0;
};

// ---- Preparation of each step

class BeforeStepTest : public SamplerTest {
 protected:
  // A flush 'f' of 5 ms on 16 processors before each step.
  SampleOptions Flushing(SampleOptions options = {}) {
    options.before_step = [this] {
      clock_.log += 'f';
      clock_.Advance(5e-3, kRoofProcessors);
    };
    return options;
  }
};

TEST(Steps, AreToldOfWhichMeasurementTheyAreSamples) {
  for (const int64_t measurement : {0, 7}) {
    FakeClock clock;
    std::string told;
    const Step step = [&](PhaseMarker& marker) {
      told += marker.Measurement() == 7 ? 's' : '-';
      clock.Advance(1e-3);
    };
    SampleOptions options = Exactly(4);
    options.warmup_iters = 2;
    options.measurement = measurement;
    options.chunk_seconds = 2e-3;
    const RoofProbe probe = [&](double) {
      told += 'r';
      return 1.0;
    };
    TakeSamples(clock, step, 0, probe, options);
    std::erase(told, 'r');
    EXPECT_EQ(std::ranges::count(told, 's'), measurement == 7 ? 4 : 0) << told;
    EXPECT_EQ(told.substr(0, 2), "--") << "of the warm-up";
  }
}

TEST_F(BeforeStepTest, RunsBeforeEachStepAndIsNotTimed) {
  const Samples samples =
      Sample([](int64_t call) { return 1e-3 * static_cast<double>(1 + call % 3); }, Flushing(Exactly(12)));
  for (std::size_t i = 0; i < samples.seconds.size(); ++i) {
    const auto call = static_cast<std::size_t>(samples.warmup_steps) + i;
    EXPECT_NEAR(samples.seconds[i], 1e-3 * static_cast<double>(1 + call % 3), 1e-3 * kTight);
  }
  EXPECT_NEAR(samples.cpu_seconds_per_step, 2e-3, 2e-3 * kTight);
  EXPECT_EQ(clock_.log.find("ss"), std::string::npos) << clock_.log;
}

TEST_F(BeforeStepTest, PrecedesTheStepsThatRestoreTheCachesToo) {
  UseRoof();
  Sample(1e-3, Flushing());
  EXPECT_THAT(clock_.log, HasSubstr("r"));
  EXPECT_EQ(std::count(clock_.log.begin(), clock_.log.end(), 'f'), calls_);
  EXPECT_EQ(clock_.log.find("ss"), std::string::npos) << clock_.log;
}

TEST_F(BeforeStepTest, ShortStepsDoNotShareASample) {
  FakeClock clock({.floor = 1e-6});
  const Step step = [&](PhaseMarker&) { clock.Advance(1e-6); };
  SampleOptions options = Exactly(100);
  options.before_step = [&] { clock.Advance(1e-3); };
  const Samples samples = TakeSamples(clock, step, 0, roof_, options);
  EXPECT_EQ(samples.steps_per_sample, 1);
  EXPECT_THAT(samples.seconds, Each(DoubleNear(1e-6, 1e-6 * kTight)));
}

TEST_F(BeforeStepTest, PhasesBeginAfterIt) {
  const Step step = [&](PhaseMarker& marker) {
    clock_.Advance(1e-3);
    marker.End(0);
    clock_.Advance(2e-3);
    marker.End(1);
  };
  const Samples samples = TakeSamples(clock_, step, 2, roof_, Flushing(Exactly(9)));
  EXPECT_THAT(samples.phase_seconds[0], Each(DoubleNear(1e-3, 1e-3 * kTight)));
  EXPECT_THAT(samples.phase_seconds[1], Each(DoubleNear(2e-3, 1e-3 * kTight)));
  EXPECT_THAT(samples.seconds, Each(DoubleNear(3e-3, 1e-3 * kTight)));
}

TEST_F(BeforeStepTest, LimitsCountTheStepsAlone) {
  const Samples samples = Sample([](int64_t call) { return call % 2 == 0 ? 1e-3 : 2e-3; }, Flushing());
  EXPECT_EQ(samples.stop, StopReason::kMaxTime);
  EXPECT_NEAR(std::accumulate(samples.seconds.begin(), samples.seconds.end(), 0.0), 0.4, 0.03);
}

TEST_F(SamplerTest, TheNumberOfStepsInASampleIsKnownBeforeItAndBounded) {
  FakeClock clock({.floor = 1e-6});
  int64_t steps = 0;
  std::vector<int64_t> counted;
  std::vector<int64_t> announced;
  const Step step = [&](PhaseMarker&) {
    ++steps;
    clock.Advance(1e-6);
  };
  SampleOptions options = Exactly(20);
  options.most_steps_per_sample = 7;
  options.before_sample = [&](int64_t coming) {
    counted.push_back(steps);
    announced.push_back(coming);
    clock.Advance(1e-3);
  };
  const Samples samples = TakeSamples(clock, step, 0, {}, options);
  EXPECT_EQ(samples.steps_per_sample, 7);
  EXPECT_THAT(samples.seconds, Each(DoubleNear(1e-6, 1e-6 * kTight)));
  counted.push_back(steps);
  for (std::size_t i = 0; i < announced.size(); ++i) EXPECT_EQ(announced[i], counted[i + 1] - counted[i]);
}

// ---- Series

TEST_F(SamplerTest, ConstantSeriesIsSoonNarrow) {
  const Samples samples = Sample(1e-3, {});
  EXPECT_EQ(samples.stop, StopReason::kNarrow);
  EXPECT_THAT(samples.seconds, Each(DoubleNear(1e-3, 1e-3 * kTight)));
  EXPECT_THAT(samples.chunks, SizeIs(4));
  EXPECT_GE(samples.seconds.size(), 10U);
  EXPECT_EQ(samples.steps_per_sample, 1);
  EXPECT_NEAR(samples.first_step_seconds, 1e-3, 1e-3 * kTight);
  EXPECT_EQ(calls_, samples.warmup_steps + static_cast<int64_t>(samples.seconds.size()));
}

TEST_F(SamplerTest, ChunksPartitionTheSamples) {
  const Samples samples = Sample([](int64_t call) { return 1e-3 * (1 + 0.01 * static_cast<double>(call % 7)); }, {});
  int64_t next = 0;
  for (const Chunk& chunk : samples.chunks) {
    EXPECT_EQ(chunk.first_sample, next);
    const std::vector<double> seconds(samples.seconds.begin() + next, samples.seconds.begin() + next + chunk.samples);
    EXPECT_NEAR(chunk.median_seconds, Median(seconds), 1e-3 * kTight);
    next += chunk.samples;
  }
  EXPECT_EQ(next, static_cast<int64_t>(samples.seconds.size()));
}

TEST_F(SamplerTest, SamplesKeepTheOrderOfTheSteps) {
  const Samples samples = Sample([](int64_t call) { return 1e-3 + 1e-6 * static_cast<double>(call * 37 % 101); },
                                 {.warmup_iters = 3, .max_samples = 200, .exact_samples = true});
  ASSERT_THAT(samples.seconds, SizeIs(200));
  for (std::size_t i = 0; i < 200; ++i) {
    EXPECT_NEAR(samples.seconds[i], 1e-3 + 1e-6 * static_cast<double>((i + 3) * 37 % 101), 1e-3 * kTight) << i;
  }
}

TEST_F(SamplerTest, BimodalSeriesUsesItsTime) {
  std::mt19937_64 random(5);  // NOLINT(cert-msc51-cpp): fixed on purpose
  const Samples samples = Sample([&](int64_t) { return (random() & 1) != 0 ? 1e-3 : 1.6e-3; }, {});
  EXPECT_EQ(samples.stop, StopReason::kMaxTime);
  const double total = Mean(samples.seconds) * static_cast<double>(samples.seconds.size());
  EXPECT_GE(total, 0.4 - kTight);
  EXPECT_LE(total, 0.4 + 0.01);
  EXPECT_GT(Summarize(samples.seconds).ci, 0.01);
}

TEST_F(SamplerTest, DriftingSeriesShowsInItsChunks) {
  const Samples samples =
      Sample([](int64_t call) { return 1e-3 * (1 + 0.002 * static_cast<double>(call)); }, {.target_ci = 0.001});
  EXPECT_EQ(samples.stop, StopReason::kMaxTime);
  EXPECT_GT(samples.chunks.size(), 8U);
  for (std::size_t i = 1; i < samples.chunks.size(); ++i) {
    EXPECT_GT(samples.chunks[i].median_seconds, samples.chunks[i - 1].median_seconds);
  }
}

TEST_F(SamplerTest, OutliersDoNotDelayConvergence) {
  const Samples samples = Sample([](int64_t call) { return call % 20 == 19 ? 0.05 : 1e-3; }, {});
  EXPECT_EQ(samples.stop, StopReason::kNarrow);
  EXPECT_NEAR(Median(samples.seconds), 1e-3, 1e-3 * kTight);
  EXPECT_GT(*std::max_element(samples.seconds.begin(), samples.seconds.end()), 0.04);  // kept all the same
}

TEST(Sampler, QuantizedClockGetsSamplesOfManyTicks) {
  const Samples samples = SampleUnder({.floor = 1e-6, .granularity = 1e-6}, 0.13e-6, {});
  EXPECT_GE(static_cast<double>(samples.steps_per_sample) * 0.13e-6, 10e-6);
  EXPECT_NEAR(Median(samples.seconds), 0.13e-6, 0.1 * 0.13e-6);  // a tick in ten
}

TEST(Sampler, EndsWhereTheClockNeverMoves) {
  const Samples samples = SampleUnder({.floor = 1e-6}, 0, {});
  EXPECT_EQ(samples.stop, StopReason::kNarrow);
  EXPECT_THAT(samples.seconds, Each(0));
}

// ---- Steps a sample

TEST(Sampler, StepBelowTheFloorSharesItsSample) {
  FakeClock clock({.floor = 50e-9});
  int64_t calls = 0;
  const Step step = [&](PhaseMarker&) {
    ++calls;
    clock.Advance(7e-9);
  };
  const Samples samples = TakeSamples(clock, step, 0, {}, {});
  EXPECT_GE(static_cast<double>(samples.steps_per_sample) * 7e-9, 100 * 50e-9);
  EXPECT_LE(static_cast<double>(samples.steps_per_sample) * 7e-9, 2 * 100 * 50e-9);
  EXPECT_THAT(samples.seconds, Each(DoubleNear(7e-9, 7e-9 * 1e-3)));
  EXPECT_EQ(calls, samples.warmup_steps + samples.steps_per_sample * static_cast<int64_t>(samples.seconds.size()));
}

TEST(Sampler, StepsASampleGrowWhereAHeavyFirstStepHidTheNeed) {
  FakeClock clock({.floor = 50e-9});
  int64_t calls = 0;
  const Step step = [&](PhaseMarker&) { clock.Advance(calls++ == 0 ? 0.1 : 7e-9); };
  const Samples samples =
      TakeSamples(clock, step, 0, {}, {.warmup_iters = 1, .max_samples = 5000, .exact_samples = true});
  EXPECT_THAT(samples.seconds, SizeIs(5000));
  EXPECT_THAT(samples.seconds, Each(DoubleNear(7e-9, 7e-9 * 1e-3)));
  EXPECT_GE(static_cast<double>(samples.steps_per_sample) * 7e-9, 100 * 50e-9);
}

TEST(Sampler, ChunksKeepWithinTheMarksOfTheClock) {
  for (const std::size_t max_marks : {2, 3, 10}) {
    const Samples samples = SampleUnder({.max_marks = max_marks}, 1e-4, Exactly(40));
    EXPECT_THAT(samples.seconds, SizeIs(40));
    for (const Chunk& chunk : samples.chunks) EXPECT_LT(chunk.samples, static_cast<int64_t>(max_marks));
  }
}

// ---- Warm-up

TEST_F(SamplerTest, WarmUpContinuesUntilMediansAreFlat) {
  const Samples samples =
      Sample([](int64_t call) { return 1e-3 * (1 + 4 * std::exp(-static_cast<double>(call) / 10)); }, {});
  EXPECT_LT(samples.seconds.front(), 1.02e-3);  // the steps 0, 10, 20 take 5.0, 2.5, 1.5 times as long as the last
  EXPECT_LT(samples.warmup_steps, 200);
}

TEST_F(SamplerTest, WarmUpEndsWithItsTime) {
  // Every step is slower than all before.
  const Samples samples = Sample([](int64_t call) { return 1e-3 * std::pow(1.02, static_cast<double>(call)); }, {});
  const double warmup = 1e-3 * (std::pow(1.02, static_cast<double>(samples.warmup_steps)) - 1) / 0.02;
  EXPECT_GE(warmup, 0.2);
  EXPECT_LE(warmup, 0.2 + 0.1);
}

TEST_F(SamplerTest, NoisyWarmUpIsFlatWithinItsOwnInterval) {
  std::mt19937_64 random(11);  // NOLINT(cert-msc51-cpp): fixed on purpose
  const Samples samples = Sample([&](int64_t) { return 1e-3 * (1 + static_cast<double>(random() % 4)); }, {});
  EXPECT_LT(samples.warmup_steps, 60);  // 0.2 s hold 80
}

TEST_F(SamplerTest, WarmUpHasAtLeastThreeChunks) {
  Sample(1e-3, {});
  EXPECT_THAT(clock_.log, MatchesRegex("\\(s\\)(\\(s+\\)){3}(\\(s+\\)){4}"));
}

TEST_F(SamplerTest, HeavyFirstStepIsNotASample) {
  const Samples samples = Sample([](int64_t call) { return call == 0 ? 1.0 : 1e-3; }, {});
  EXPECT_NEAR(samples.first_step_seconds, 1, kTight);
  EXPECT_THAT(samples.seconds, Each(DoubleNear(1e-3, 1e-3 * kTight)));
  EXPECT_THAT(samples.chunks, SizeIs(4));
  EXPECT_GE(samples.chunks.front().samples, 24);  // and the first step's duration is forgotten
}

TEST_F(SamplerTest, ExactWarmUpIsExact) {
  for (const bool with_roof : {false, true}) {
    if (with_roof) UseRoof();
    for (const int64_t warmup : {0, 1, 2, 3, 5, 100}) {
      for (const double seconds : {1e-7, 1e-3, 0.3}) {
        clock_.log.clear();
        calls_ = 0;
        const Samples samples = Sample(seconds, {.warmup_iters = warmup, .max_samples = 1, .exact_samples = true});
        EXPECT_EQ(samples.warmup_steps, warmup);
        EXPECT_EQ(StepsBeforeLastChunk(), static_cast<std::size_t>(warmup)) << clock_.log;
        EXPECT_EQ(calls_, warmup + 1) << clock_.log;
        EXPECT_NEAR(samples.first_step_seconds, seconds, seconds * 1e-6);
      }
    }
  }
}

TEST(Sampler, ExactWarmUpIsExactBelowTheFloorToo) {
  for (const int64_t warmup : {0, 1, 2, 5, 100}) {
    FakeClock clock({.floor = 1e-6});
    int64_t calls = 0;
    const Step step = [&](PhaseMarker&) {
      ++calls;
      clock.Advance(1e-7);
    };
    const Samples samples =
        TakeSamples(clock, step, 0, {}, {.warmup_iters = warmup, .max_samples = 1, .exact_samples = true});
    EXPECT_EQ(samples.warmup_steps, warmup);
    EXPECT_EQ(calls, warmup + samples.steps_per_sample);
  }
}

TEST_F(SamplerTest, WithoutWarmUpTheFirstStepIsTheFirstSample) {
  const Samples samples = Sample([](int64_t call) { return call == 0 ? 0.5 : 1e-3; },
                                 {.warmup_iters = 0, .max_samples = 5, .exact_samples = true});
  EXPECT_NEAR(samples.first_step_seconds, 0.5, kTight);
  ASSERT_THAT(samples.seconds, SizeIs(5));
  EXPECT_NEAR(samples.seconds[0], 0.5, kTight);
  EXPECT_NEAR(samples.seconds[1], 1e-3, kTight);
  EXPECT_EQ(calls_, 5);
}

// ---- Limits

TEST_F(SamplerTest, EndsAtTheFirstLimit) {
  EXPECT_EQ(Sample(1e-3, {.max_time = 100, .max_wall = 0.3005, .target_ci = -1}).stop, StopReason::kMaxWall);
  EXPECT_EQ(calls_, 301) << "the last chunk fits max_wall";
  const struct {
    const char* meaning;
    double step;  // seconds
    SampleOptions options;
    StopReason stop;
    std::size_t samples;
    int64_t first_chunk;  // samples; 0: any
    std::size_t chunks;   // 0: any
  } table[] = {
      {"a step beyond max_wall", 10, {.max_time = 100}, StopReason::kMaxWall, 1, 1, 1},
      {"least_samples precede limits of time", 10, {.least_samples = 3}, StopReason::kMaxTime, 3, 1, 3},
      {"a step longer than the warm-up", 0.3, {}, StopReason::kMaxTime, 2, 1, 2},
      {"few long samples do not converge", 0.1, {.max_time = 100, .max_wall = 100}, StopReason::kConverged, 10, 1, 10},
      {"max_time counts samples only", 0.0101, {.target_ci = -1}, StopReason::kMaxTime, 40, 2, 21},
      {"a short max_time has four chunks", 1e-3, {.max_time = 0.0201}, StopReason::kNarrow, 20, 5, 4},
      // Five chunks of 25 ms, and a part of one.
      {"the last chunk fits max_time", 1e-3, {.max_time = 0.1305, .target_ci = -1}, StopReason::kMaxTime, 131, 0, 0},
      {"min_samples",
       1e-3,
       {.min_samples = 61, .max_time = 10, .chunk_seconds = 0.0101},
       StopReason::kNarrow,
       70,
       10,
       7},
      {"a long series converges", 1e-3, {.min_samples = 601, .max_time = 10}, StopReason::kConverged, 624, 0, 0},
      {"a series of a moment is narrow", 1e-3, {.min_samples = 401, .max_time = 10}, StopReason::kNarrow, 408, 0, 0},
      {"max_samples", 1e-3, {.max_samples = 37, .target_ci = -1}, StopReason::kMaxSamples, 37, 10, 4},
      {"one exact sample", 1, Exactly(1), StopReason::kMaxSamples, 1, 1, 1},
      {"exact samples ignore time", 1, Exactly(50), StopReason::kMaxSamples, 50, 1, 50},
      {"few samples have four chunks", 1e-6, Exactly(8), StopReason::kMaxSamples, 8, 2, 4},
      {"three samples", 1e-6, Exactly(3), StopReason::kMaxSamples, 3, 1, 3},
  };
  UseRoof();  // max_time does not count probes
  for (const auto& [meaning, step, options, stop, count, first_chunk, chunks] : table) {
    const Samples samples = Sample(step, options);
    EXPECT_EQ(samples.stop, stop) << meaning;
    EXPECT_THAT(samples.seconds, SizeIs(count)) << meaning;
    if (first_chunk > 0) {
      EXPECT_EQ(samples.chunks.front().samples, first_chunk) << meaning;
    }
    if (chunks > 0) {
      EXPECT_THAT(samples.chunks, SizeIs(chunks)) << meaning;
    }
    if (step > 0.1) {
      EXPECT_EQ(samples.warmup_steps, step > 4 ? 1 : 2)
          << meaning << ": a step longer than the wall needs no second one";
    }
  }
}

TEST_F(SamplerTest, WallLimitsProbesAndWarmUpToo) {
  UseRoof();
  const Samples samples = Sample(0.1, {.max_time = 100, .max_wall = 3, .target_ci = -1});
  EXPECT_EQ(samples.stop, StopReason::kMaxWall);
  double probes = 0;
  for (const double seconds : probes_) probes += seconds;
  const double wall = probes + 0.1 * static_cast<double>(calls_);
  EXPECT_GE(wall, 3);
  EXPECT_LE(wall, 3 + 0.1 + 0.025);
  EXPECT_GT(probes, 0.3);
}

TEST_F(SamplerTest, InterruptionEndsSamplingAfterItsChunk) {
  int polls = 0;
  SampleOptions options = Exactly(1000);
  options.warmup_iters = 1;
  options.interrupted = [&] { return ++polls > 3; };
  const Samples samples = Sample(1e-3, options);
  EXPECT_EQ(samples.stop, StopReason::kInterrupted);
  EXPECT_THAT(samples.chunks, SizeIs(3));
}

TEST_F(SamplerTest, InterruptionInTheWarmUpLeavesOneSample) {
  UseRoof();
  for (const std::optional<int64_t> warmup : {std::optional<int64_t>(), std::optional<int64_t>(50)}) {
    clock_.log.clear();
    int polls = 0;
    SampleOptions options;
    options.warmup_iters = warmup;
    options.interrupted = [&] { return ++polls == 2; };  // and never again: the sampler remembers
    const Samples samples = Sample(0.01, options);
    EXPECT_EQ(samples.stop, StopReason::kInterrupted);
    EXPECT_THAT(samples.seconds, SizeIs(1));
    EXPECT_THAT(clock_.log, MatchesRegex("\\(s\\)\\(s+\\)\\(s\\)"));
  }
}

// ---- Roof

TEST_F(SamplerTest, ProbesAlternateWithChunksOfLongSteps) {
  UseRoof();
  Sample(0.1, {.warmup_iters = 2, .max_samples = 3, .exact_samples = true});
  EXPECT_EQ(clock_.log, "(s)r(s)(s)r(s)r(s)r");  // a long step fills the caches itself
}

TEST_F(SamplerTest, AShortStepRestoresTheCachesAfterEachProbe) {
  UseRoof();
  const Samples samples = Sample(1e-3, {.warmup_iters = 3, .max_samples = 8, .exact_samples = true});
  EXPECT_EQ(clock_.log, "(s)(s)r(s)(ss)rs(ss)rs(ss)rs(ss)r");
  EXPECT_EQ(samples.warmup_steps, 3);
  EXPECT_THAT(samples.seconds, SizeIs(8));
}

TEST_F(SamplerTest, AutomaticWarmUpIsFollowedByProbeAndRestoringStep) {
  UseRoof();
  Sample(1e-3, Exactly(2));
  EXPECT_THAT(clock_.log, MatchesRegex("\\(s\\)(\\(s+\\)){3}rs\\(s\\)rs\\(s\\)r"));
}

TEST_F(SamplerTest, WithoutWarmUpTheFirstStepMeetsNoRestoringStep) {
  UseRoof();
  Sample(1e-3, {.warmup_iters = 0, .max_samples = 2, .exact_samples = true});
  EXPECT_EQ(clock_.log, "r(s)rs(s)r");
}

TEST_F(SamplerTest, ChunkHasTheMeanRateOfTheProbesAroundIt) {
  UseRoof();
  const Samples samples = Sample(1e-3, Exactly(100));
  ASSERT_GE(samples.chunks.size(), 4U);
  EXPECT_THAT(probes_, SizeIs(samples.chunks.size() + 1));
  for (std::size_t i = 0; i < samples.chunks.size(); ++i) {
    EXPECT_DOUBLE_EQ(samples.chunks[i].roof_rate, static_cast<double>(i) + 1.5);
  }
}

TEST_F(SamplerTest, FailedProbeLeavesBothChunksWithoutRate) {
  int probes = 0;
  roof_ = [&](double) { return ++probes == 3 ? 0.0 : 10.0; };
  const Samples samples = Sample(1e-3, Exactly(4));
  ASSERT_THAT(samples.chunks, SizeIs(4));
  std::vector<double> rates;
  for (const Chunk& chunk : samples.chunks) rates.push_back(chunk.roof_rate);
  EXPECT_THAT(rates, ElementsAre(10, 0, 0, 10));
}

TEST_F(SamplerTest, WithoutRoofThereIsNoRateAndNoExtraStep) {
  const Samples samples = Sample(1e-3, Exactly(4));
  for (const Chunk& chunk : samples.chunks) EXPECT_EQ(chunk.roof_rate, 0);
  EXPECT_EQ(calls_, samples.warmup_steps + 4);
}

TEST_F(SamplerTest, ProbesTakeTheirShareWithinBounds) {
  struct {
    double step;
    double share;
    double probe;  // share / (1 - share) of a chunk, but …
  } const expected[] = {
      {0.012, 0.25, 0.008},  // of a chunk of two steps
      {0.012, 0.75, 0.025},  // … at most 25 ms
      {10, 0.25, 1},         // … or a tenth of a long chunk
      {1e-5, 0.25, 0.5e-3},  // … at least 0.5 ms, here for 10 steps
  };
  UseRoof();
  for (const auto& [step, share, probe] : expected) {
    probes_.clear();
    Sample(step, {.max_samples = 40, .exact_samples = true, .max_warmup_time = 1e-4, .roof_share = share});
    EXPECT_THAT(probes_, Each(DoubleNear(probe, 1e-6))) << step;
  }
}

// ---- Processor time and queueing

TEST_F(SamplerTest, ProcessorTimeIsOfTheSamplesAlone) {
  UseRoof();
  const Step step = [&](PhaseMarker&) { clock_.Advance(1e-3, calls_++ == 0 ? 100 : 2); };
  const Samples samples =
      TakeSamples(clock_, step, 0, roof_, {.warmup_iters = 1, .max_samples = 100, .exact_samples = true});
  EXPECT_NEAR(samples.cpu_seconds_per_step, 2e-3, 1e-9);
  EXPECT_NEAR(samples.host_enqueue_ratio, 1, 1e-9);
}

TEST(Sampler, DeviceIsMetOnceAChunk) {
  FakeDeviceClock clock({.floor = 2e-6, .max_marks = 1000});
  const Samples samples = TakeSamples(clock, [&](PhaseMarker&) { clock.Enqueue(1e-6, 1e-4); }, 0, {},
                                      {.warmup_iters = 1, .max_samples = 600, .exact_samples = true});
  EXPECT_THAT(samples.seconds, Each(DoubleNear(1e-4, 1e-9)));
  EXPECT_EQ(std::count(clock.log.begin(), clock.log.end(), ')'), static_cast<int64_t>(samples.chunks.size()) + 1);
  EXPECT_LT(samples.chunks.size(), 10U);
  EXPECT_NEAR(samples.host_enqueue_ratio, 0.01, 1e-6);
  EXPECT_NEAR(samples.cpu_seconds_per_step, 1e-4, 5e-5);  // the host spins while it waits
}

TEST(Sampler, SlowLaunchesShowInTheEnqueueRatio) {
  FakeDeviceClock clock({.max_marks = 1000});
  const Samples samples = TakeSamples(
      clock, [&](PhaseMarker&) { clock.Enqueue(2e-5, 1e-6); }, 0, {}, Exactly(1000));
  EXPECT_GT(samples.host_enqueue_ratio, 1);
}

TEST_F(SamplerTest, AChunkThatBeganAtALowClockIsTakenAgain) {
  // The clock is low in the chunks from the number `from` to `until`, the warm-up's being 1.
  const auto sample = [&](int64_t from, int64_t until, bool watches = true) {
    clock_.log.clear();
    return Sample(
        [=, this](int64_t) {
          const auto chunk = std::count(clock_.log.begin(), clock_.log.end(), '(');
          const bool is_slow = chunk >= from && chunk <= until;
          clock_.hertz = is_slow ? 1e9 : 2e9;
          return is_slow ? 2e-3 : 1e-3;
        },
        {.warmup_iters = 1, .max_samples = 40, .exact_samples = true, .watches_device = watches});
  };
  const Samples once = sample(3, 3);
  EXPECT_EQ(once.repeated_chunks, 1);
  EXPECT_THAT(once.seconds, AllOf(SizeIs(40), Each(DoubleNear(1e-3, 1e-9))));
  EXPECT_THAT(once.chunks, Each(Field(&Chunk::device_hertz, 2e9)));
  // A clock that stays low is that of the case.
  const Samples lasting = sample(4, 1000);
  EXPECT_EQ(lasting.repeated_chunks, 3);
  EXPECT_THAT(lasting.seconds, SizeIs(40));
  EXPECT_NEAR(lasting.seconds.back(), 2e-3, 1e-9);
  EXPECT_EQ(sample(3, 3, /*watches=*/false).repeated_chunks, 0);
  // An idle device has a higher one, with which the first chunk alone is compared.
  EXPECT_EQ(sample(2, 1000).repeated_chunks, 1);
}

// ---- Phases

class PhaseTest : public testing::Test {
 protected:
  struct Part {
    int phase;
    double seconds;
  };

  // Steps that end these phases after these durations.
  Samples Sample(int phases, const std::vector<Part>& parts, const SampleOptions& options) {
    return SampleChanging(
        phases, [&](int64_t) { return parts; }, options);
  }

  Samples SampleChanging(int phases, const std::function<std::vector<Part>(int64_t call)>& parts,
                         const SampleOptions& options) {
    const Step step = [&](PhaseMarker& marker) {
      for (const auto& [phase, seconds] : parts(calls_++)) {
        clock_.Advance(seconds);
        marker.End(phase);
      }
    };
    return TakeSamples(clock_, step, phases, roof_, options);
  }

  // `sample` must throw std::logic_error with a message that contains `what`, and leave the clock ready for the next
  // case.
  void ExpectRefusal(const std::function<void()>& sample, const std::string& what) {
    EXPECT_THAT(sample, ThrowsMessage<std::logic_error>(HasSubstr(what)));
    EXPECT_FALSE(clock_.InChunk());
  }

  FakeClock clock_{{.floor = 1e-6, .max_marks = 64}};
  RoofProbe roof_;
  int64_t calls_ = 0;
};

TEST_F(PhaseTest, EachPhaseHasItsOwnSamples) {
  const Samples samples = Sample(2, {{0, 2e-3}, {1, 3e-3}}, Exactly(20));
  ASSERT_THAT(samples.phase_seconds, SizeIs(2));
  EXPECT_THAT(samples.phase_seconds, Each(SizeIs(20)));
  EXPECT_THAT(samples.phase_seconds[0], Each(DoubleNear(2e-3, 1e-11)));
  EXPECT_THAT(samples.phase_seconds[1], Each(DoubleNear(3e-3, 1e-11)));
  EXPECT_THAT(samples.seconds, Each(DoubleNear(5e-3, 1e-11)));
}

TEST_F(PhaseTest, FirstSampleWithoutWarmUpHasPhasesToo) {
  const Samples samples = SampleChanging(2,
                                         [](int64_t call) {
                                           return std::vector<Part>{{1, call == 0 ? 0.5 : 1e-3}, {0, 2e-3}};
                                         },
                                         {.warmup_iters = 0, .max_samples = 3, .exact_samples = true});
  EXPECT_THAT(samples.phase_seconds[1],
              ElementsAre(DoubleNear(0.5, 1e-9), DoubleNear(1e-3, 1e-9), DoubleNear(1e-3, 1e-9)));
  EXPECT_THAT(samples.phase_seconds[0], Each(DoubleNear(2e-3, 1e-9)));
  EXPECT_NEAR(samples.first_step_seconds, 0.502, 1e-9);
}

TEST_F(PhaseTest, RepeatedPhasesAddUp) {
  const Samples samples = Sample(2, {{0, 1e-3}, {1, 2e-3}, {0, 3e-3}, {1, 5e-3}}, Exactly(8));
  EXPECT_THAT(samples.phase_seconds[0], Each(DoubleNear(4e-3, 1e-11)));
  EXPECT_THAT(samples.phase_seconds[1], Each(DoubleNear(7e-3, 1e-11)));
  EXPECT_THAT(samples.seconds, Each(DoubleNear(11e-3, 1e-11)));
}

TEST_F(PhaseTest, ShortStepsShareASampleWithinTheMarks) {
  const Samples samples = Sample(2, {{0, 1e-6}, {1, 2e-6}}, Exactly(40));
  EXPECT_GE(samples.steps_per_sample, 4);  // 10 us in steps of 3 us
  EXPECT_THAT(samples.seconds, Each(DoubleNear(3e-6, 1e-12)));
  EXPECT_THAT(samples.phase_seconds[0], Each(DoubleNear(1e-6, 1e-12)));
  EXPECT_THAT(samples.phase_seconds[1], Each(DoubleNear(2e-6, 1e-12)));
}

TEST_F(PhaseTest, StepsThatRestoreTheCachesAreNotMarked) {
  int probes = 0;
  roof_ = [&](double) { return static_cast<double>(++probes); };
  const Samples samples = Sample(1, {{0, 1e-3}}, Exactly(8));  // the clock fails a mark outside of a chunk
  EXPECT_EQ(calls_, samples.warmup_steps + 8 + static_cast<int64_t>(samples.chunks.size()));
}

TEST_F(PhaseTest, RefusesStepsThatBreakTheRules) {
  const std::vector<int> none;
  const struct {
    int phases;
    std::vector<int> first;  // that the first five calls end
    std::vector<int> later;
    const char* message;
  } table[] = {
      {1, {0, 0}, {0}, "ended 1 phases where its first call ended 2"},
      {1, {0, 0}, {0, 0, 0}, "phase 0 as its number 2"},
      {2, {0, 1}, {1, 0}, "phase 1 as its number 0"},
      {2, {0, 2}, none, "a step of 2 phases ended phase 2"},
      {2, {-1}, none, "a step of 2 phases ended phase -1"},
      {0, {0}, none, "a step of 0 phases ended phase 0"},
      {2, {0}, none, "never ended phase 1"},
      {1, none, none, "never ended phase 0"},
  };
  for (const auto& row : table) {
    calls_ = 0;
    const auto parts = [&row](int64_t call) {
      std::vector<Part> ended;
      for (const int phase : call < 5 ? row.first : row.later) ended.push_back({.phase = phase, .seconds = 1e-3});
      return ended;
    };
    ExpectRefusal([&] { SampleChanging(row.phases, parts, {}); }, row.message);
  }
}

TEST_F(PhaseTest, RefusesMorePhasesThanTheClockCanMark) {
  const Part part = {.phase = 0, .seconds = 1e-6};
  EXPECT_NO_THROW(Sample(1, std::vector<Part>(63, part), Exactly(4)));
  ExpectRefusal([&] { Sample(1, std::vector<Part>(64, part), {}); }, "more than 63 phases");
}

// ---- Errors

TEST_F(SamplerTest, ExceptionOfTheStepPassesThroughAndEndsTheChunk) {
  struct OutOfMemory {};
  for (const int64_t failing : {0, 1, 30, 100}) {
    calls_ = 0;
    const auto sample = [&] {
      return Sample([&](int64_t call) { return call == failing ? throw OutOfMemory() : 1e-3; }, {});
    };
    EXPECT_THROW(sample(), OutOfMemory) << failing;
    EXPECT_FALSE(clock_.InChunk());
  }
}

TEST_F(SamplerTest, FinishedChunksOutliveAnException) {
  const Step step = [this](PhaseMarker&) {
    if (++calls_ > 90) throw std::runtime_error("no more");
    clock_.Advance(1e-3);
  };
  Samples samples;
  samples.seconds = {7};
  const SampleOptions options = {.warmup_iters = 1, .max_samples = 100, .exact_samples = true};
  EXPECT_THROW(TakeSamples(clock_, step, 0, roof_, options, samples), std::runtime_error);
  ASSERT_THAT(samples.chunks, SizeIs(4)) << "of 8 steps, and of 25 each";
  EXPECT_THAT(samples.seconds, AllOf(SizeIs(83), Each(DoubleNear(1e-3, 1e-11))));
}

TEST_F(SamplerTest, ExceptionOfTheRoofPassesThrough) {
  roof_ = [](double) -> double { throw std::runtime_error("roof"); };
  EXPECT_THAT([&] { Sample(1e-3, {}); }, ThrowsMessage<std::runtime_error>("roof"));
}

TEST_F(SamplerTest, RefusesOptionsThatMeanNothing) {
  const std::vector<std::function<void(SampleOptions&)>> mistakes = {
      [](SampleOptions& options) { options.max_samples = 0; },
      [](SampleOptions& options) { options.warmup_iters = -1; },
      [](SampleOptions& options) { options.chunk_seconds = 0; }, [](SampleOptions& options) { options.roof_share = 1; },
      [](SampleOptions& options) { options.roof_share = std::numeric_limits<double>::quiet_NaN(); }};
  for (const auto& mistake : mistakes) {
    SampleOptions options;
    mistake(options);
    EXPECT_THROW(Sample(1e-3, options), std::invalid_argument);
  }
  EXPECT_THROW(TakeSamples(clock_, [](PhaseMarker&) {}, -1, {}, {}), std::invalid_argument);
  EXPECT_EQ(calls_, 0);
}

TEST(StopReason, HasItsName) {
  EXPECT_EQ(Name(StopReason::kConverged), "converged");
  EXPECT_EQ(Name(StopReason::kNarrow), "narrow");
  EXPECT_EQ(Name(StopReason::kMaxSamples), "max_samples");
  EXPECT_EQ(Name(StopReason::kMaxTime), "max_time");
  EXPECT_EQ(Name(StopReason::kMaxWall), "max_wall");
  EXPECT_EQ(Name(StopReason::kInterrupted), "interrupted");
}

}  // namespace
}  // namespace roofbench::timing
