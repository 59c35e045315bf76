// SPDX-License-Identifier: Apache-2.0
#include "lib/run/session.h"
#include "lib/run/built_case.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lib/suite/operand_cache.h"
#include "lib/timing/statistics.h"
#include "tests/suite/test_family.h"

namespace roofbench {
namespace {

using testing::HasSubstr;

class SessionTest : public testing::Test {
 protected:
  SessionTest() { options_.reference = "a100-sxm4-40gb"; }

  PlannedCase At(const Family& family, const std::string& impl = "good", const std::string& n = "64") {
    Point point = family.Points(Suite::kQuick)[0].With("impl", impl).With("n", n);
    return {&family, point, point.Name()};
  }

  static double Counter(const Outcome& outcome, const std::string& name) {
    for (const auto& [key, value] : outcome.counters) {
      if (key == name) return value;
    }
    return -1;
  }

  RunOptions options_;
  FakeDevice device_;
};

TEST_F(SessionTest, MeasuresAgainstTheRoofBesideTheCase) {
  // 512 bytes a step; at 1 GB/s the roof allows 0.512 us, and a step takes 2.048 us.
  const Family family = TestFamily(device_, 2.048e-6);
  Session session(options_, device_, {At(family)}, nullptr);
  const Outcome& outcome = session.Run(0);
  ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  EXPECT_NEAR(outcome.summary.median, 2.048e-6, 1e-12);
  EXPECT_NEAR(Counter(outcome, "roof"), 0.25, 1e-6);
  EXPECT_NEAR(Counter(outcome, "bytes/s"), 250e6, 1);
  EXPECT_NEAR(Counter(outcome, "a100_mem_util"), 0.25e9 / 1555e9, 1e-9);
  EXPECT_EQ(Counter(outcome, "mem_util"), -1) << "no datasheet, no figure";
  EXPECT_EQ(Counter(outcome, "FLOP/s"), -1);
  EXPECT_GT(Counter(outcome, "peak_mem"), 2 * 64 * 4 - 1);
}

// Three phases of 2 us, `sum_seconds` and 1 us. At 1 GB/s the roof allows 1 us for the products and 3 us for the sum;
// nothing is known of the rest.
Family InParts(FakeDevice& device, double sum_seconds) {
  return PlainFamily("parts", "three parts")
      .Axis({.name = "impl", .choices = {"good"}, .default_value = "good"})
      .Axis({.name = "n"})
      .Grid(Suite::kQuick, {{"n", {"64"}}})
      .Cost([](const Point& /*at*/) {
        return workload::Cost{.operations = {{.bytes_read = 500, .component = "products"},
                                             {.bytes_read = 3000, .component = "sum"},
                                             {.bytes_read = 500, .component = "products"}}};
      })
      .Build([&device, sum_seconds](const Point& at, Inputs& in) -> absl::StatusOr<Case> {
        const at::Tensor x = in.Randn({at.Int("n")});
        return Case{.step =
                        [&device, sum_seconds](timing::PhaseMarker& marker) {
                          device.fake_clock.Advance(1e-6);
                          marker.End(2);
                          device.fake_clock.Advance(2e-6);
                          marker.End(0);
                          device.fake_clock.Advance(sum_seconds);
                          marker.End(1);
                        },
                    .phases = {"products", "sum", "rest"},
                    .result = [=] { return std::vector{x}; },
                    .reference = [=] { return std::vector{x.to(at::kDouble)}; }};
      });
}

TEST_F(SessionTest, PhasesHaveTheRoofOfTheirOwnOperations) {
  const Family family = InParts(device_, 4e-6);
  Session session(options_, device_, {At(family)}, nullptr);
  const Outcome& outcome = session.Run(0);
  ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  EXPECT_NEAR(Counter(outcome, "products_roof"), 0.5, 1e-6);
  EXPECT_NEAR(Counter(outcome, "sum_roof"), 0.75, 1e-6);
  EXPECT_EQ(Counter(outcome, "rest_roof"), -1);
  // The phases' times at the roof add up to the step's.
  const double at_roof = Counter(outcome, "products_roof") * Counter(outcome, "products_ms") +
                         Counter(outcome, "sum_roof") * Counter(outcome, "sum_ms");
  EXPECT_NEAR(at_roof, Counter(outcome, "roof") * Counter(outcome, "mean_ms"), 1e-9);
}

TEST_F(SessionTest, APhaseAboveItsRoofHasNoShare) {
  // The sum at 1.5 of what the roof allows; the step as a whole below it.
  const Family family = InParts(device_, 2e-6);
  Session session(options_, device_, {At(family)}, nullptr);
  const Outcome& outcome = session.Run(0);
  EXPECT_EQ(Counter(outcome, "disturbed"), 0);
  EXPECT_NEAR(Counter(outcome, "products_roof"), 0.5, 1e-6);
  EXPECT_EQ(Counter(outcome, "sum_roof"), -1);
}

TEST_F(SessionTest, TheRoofFollowsTheMachine) {
  // The memory runs at half its calibrated speed now: the same time is twice as near to the roof.
  device_.roof_rate = 0.5e9;
  const Family family = TestFamily(device_, 2.048e-6);
  Session session(options_, device_, {At(family)}, nullptr);
  EXPECT_NEAR(Counter(session.Run(0), "roof"), 0.5, 1e-6);
}

TEST_F(SessionTest, FasterThanTheRoofIsAnError) {
  const Family family = TestFamily(device_, 0.4e-6);
  Session session(options_, device_, {At(family)}, nullptr);
  const Outcome& outcome = session.Run(0);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.reason, HasSubstr("cannot be"));
}

TEST_F(SessionTest, ARoofThatWasDisturbedGivesNoShare) {
  // 1.7 of the rate next to it, but not above the rate that was read when the memory was calibrated.
  device_.roof_rate = 0.5e9;
  const Family family = TestFamily(device_, 0.6e-6);
  Session session(options_, device_, {At(family)}, nullptr);
  const Outcome& outcome = session.Run(0);
  EXPECT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  EXPECT_EQ(Counter(outcome, "disturbed"), 1);
  EXPECT_EQ(Counter(outcome, "roof"), -1);
  EXPECT_GT(timing::Median(outcome.roof_ratios), 1.5) << "the journal keeps what was seen";
}

TEST_F(SessionTest, AWrongResultIsAFailureAndNotANumber) {
  const Family family = TestFamily(device_, 1e-3);
  Session session(options_, device_, {At(family, "wrong"), At(family)}, nullptr);
  const Outcome& wrong = session.Run(0);
  EXPECT_EQ(wrong.verdict, Verdict::kFailed);
  EXPECT_THAT(wrong.reason, HasSubstr("wrong result"));
  EXPECT_TRUE(wrong.counters.empty());
  EXPECT_EQ(session.failed(), 1);
  EXPECT_EQ(session.Run(1).verdict, Verdict::kMeasured) << "one failure never stops the others";
}

TEST_F(SessionTest, CheckOffTimesAWrongResult) {
  options_.check = false;
  const Family family = TestFamily(device_, 1e-3);
  Session session(options_, device_, {At(family, "wrong")}, nullptr);
  EXPECT_EQ(session.Run(0).verdict, Verdict::kMeasured);
}

TEST_F(SessionTest, ExceptionsAndRefusalsAreVerdicts) {
  const Family family = TestFamily(device_, 1e-3);
  Session session(options_, device_, {At(family, "throws"), At(family, "refuses")}, nullptr);
  const Outcome& thrown = session.Run(0);
  EXPECT_EQ(thrown.verdict, Verdict::kFailed);
  EXPECT_THAT(thrown.reason, HasSubstr("the kernel broke"));
  const Outcome& refused = session.Run(1);
  EXPECT_EQ(refused.verdict, Verdict::kSkipped);
  EXPECT_THAT(refused.reason, HasSubstr("no kernel for this (memory: 244 MiB predicted"));
  EXPECT_EQ(session.failed(), 1) << "a skipped case has not failed";
}

TEST_F(SessionTest, TooLargeIsSkippedWithBothFigures) {
  device_.free_bytes = 300e6;
  const Family family = TestFamily(device_, 1e-3);
  Session session(options_, device_, {At(family, "good", "100000000")}, nullptr);
  const Outcome& outcome = session.Run(0);
  EXPECT_EQ(outcome.verdict, Verdict::kSkipped);
  EXPECT_THAT(outcome.reason, testing::AllOf(HasSubstr("needs more memory than is free"),
                                             HasSubstr("(memory: 1.06 GiB predicted, 286 MiB free)")));
}

TEST_F(SessionTest, TooSlowIsPredictedFromSmallerPoints) {
  // 2 s for a step of any size that is built; the pilot run at 1/16 of the size takes 2 s, so the whole is predicted at
  // 32 s.
  const Family family = TestFamily(device_, 2.0);
  Session session(options_, device_, {At(family, "good", "100000000")}, nullptr);
  const Outcome& outcome = session.Run(0);
  EXPECT_EQ(outcome.verdict, Verdict::kSkipped);
  EXPECT_THAT(outcome.reason, testing::AllOf(HasSubstr("predicted to take 32.0 s"), HasSubstr("--max_step_time")));
}

TEST_F(SessionTest, AFamilyOfNamesIsPredictedByOneOfSizes) {
  const Registration sized(TestFamily(device_, 2.0, "sized"));
  int built = 0;
  const auto of_size = [](const Point&) {
    return FamilyNamed("sized").Points(Suite::kQuick)[0].With("n", "100000000");
  };
  const Family named = PlainFamily("named", "the same by name")
                           .Axis({.name = "size", .choices = {"large"}})
                           .Grid(Suite::kQuick, {{"size", {"large"}}})
                           .PredictAs(of_size)
                           .Cost([](const Point&) { return workload::CopyStream{4e8}.Cost(); })
                           .Build([&](const Point&, Inputs&) -> absl::StatusOr<Case> {
                             ++built;
                             return Case{};
                           });
  const Point point = named.Points(Suite::kQuick)[0];
  Session session(options_, device_, {{&named, point, point.Name()}}, nullptr);
  const Outcome& outcome = session.Run(0);
  EXPECT_EQ(outcome.verdict, Verdict::kSkipped);
  EXPECT_THAT(outcome.reason, HasSubstr("predicted to take 32.0 s"));
  EXPECT_EQ(built, 0) << "nothing as large is built to find out";
}

// Pilot runs come before the measurement of memory, and may make what the case shares with others.
TEST_F(SessionTest, WhatCasesShareCountsInThePeakOfEach) {
  constexpr double kBytes = 4 << 20;
  int builds = 0;
  int made = 0;
  const Family family = TestFamily(device_, 1e-3).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
    ++builds;
    const auto make = [&]() -> absl::StatusOr<OperandCache::Made> {
      ++made;
      return OperandCache::Made{std::make_shared<at::Tensor>(at::ones({1 << 20})), kBytes};
    };
    const auto shared = OperandCache::Get("weights", make);
    const at::Tensor x = in.Randn({16});
    return Case{.step = [&] { device_.fake_clock.Advance(1e-3); },
                .result = [=] { return std::vector{x}; },
                .reference = [=] { return std::vector{x}; },
                .shared_bytes = shared->unseen_bytes};
  });
  // Large enough that a pilot run must say how long it takes; and small.
  std::vector<PlannedCase> plan = {At(family, "good", "100000000"), At(family), At(family)};
  for (PlannedCase& planned : plan) planned.point = planned.point.With("cache", "warm");  // one copy
  Session session(options_, device_, plan, nullptr);
  for (const std::size_t i : {0, 1, 2}) {
    const int before = builds;
    EXPECT_NEAR(Counter(session.Run(i), "peak_mem"), kBytes, 4096) << i;
    EXPECT_EQ(builds - before > 1, i == 0) << i;
  }
  EXPECT_EQ(made, 1);
  OperandCache::Enter("nobody");
}

TEST_F(SessionTest, ColdCasesRotateOverSixteenLastLevelCaches) {
  device_.last_level_bytes = 64 * 1024;
  int builds = 0;
  FakeDevice& device = device_;
  const Family family = TestFamily(device_, 1e-3).Build([&builds, &device](const Point& at, Inputs& in) {
    ++builds;
    const at::Tensor x = in.Randn({at.Int("n")});
    return absl::StatusOr<Case>(Case{.step = [&device] { device.fake_clock.Advance(1e-3); },
                                     .result = [=] { return std::vector{x}; },
                                     .reference = [=] { return std::vector{x}; }});
  });
  PlannedCase warm = At(family, "good", "4096");
  warm.point = warm.point.With("cache", "warm");
  Session session(options_, device_, {At(family, "good", "4096"), warm}, nullptr);
  session.Run(0);  // 16 KiB a copy
  EXPECT_EQ(builds, 16 * 64 / 16);
  builds = 0;
  session.Run(1);
  EXPECT_EQ(builds, 1);
}

// Where lines can be evicted there is one copy; what the case holds on to is evicted, not what the step gives back.
TEST_F(SessionTest, ColdCasesEvictWhatTheyHold) {
  device_.evicts = true;
  device_.last_level_bytes = 64 * 1024;
  FakeDevice& device = device_;
  int builds = 0;
  const Family family = TestFamily(device_, 1e-3).Build([&builds, &device](const Point& at, Inputs& in) {
    ++builds;
    const at::Tensor x = in.Randn({at.Int("n")});
    const auto grown = std::make_shared<at::Tensor>();
    return absl::StatusOr<Case>(Case{.step =
                                         [=, &device] {
                                           if (!grown->defined()) *grown = at::empty({1000});
                                           const at::Tensor temporary = x + 1;
                                           device.fake_clock.Advance(1e-3);
                                         },
                                     .result = [=] { return std::vector{x}; },
                                     .reference = [=] { return std::vector{x}; }});
  });
  const auto bytes = [&](bool warm) {
    PlannedCase planned = At(family, "good", "4096");
    if (warm) planned.point = planned.point.With("cache", "warm");
    const absl::StatusOr<BuiltCase> built = BuildCase(planned, options_, device_, Tamper());
    std::size_t sum = 0;
    for (const hardware::MemoryRange& range : built->operands) sum += range.bytes;
    return sum;
  };
  EXPECT_EQ(bytes(/*warm=*/false), 4 * (4096 + 1000));
  EXPECT_EQ(builds, 1);
  EXPECT_EQ(bytes(/*warm=*/true), 0);
  Session session(options_, device_, {At(family, "good", "4096")}, nullptr);
  EXPECT_EQ(session.Run(0).verdict, Verdict::kMeasured);
  EXPECT_EQ(session.OutcomesOf(0).front().samples.steps_per_sample, 1);
}

TEST_F(SessionTest, InterruptedBeforeItRan) {
  const Family family = TestFamily(device_, 1e-3);
  Session session(options_, device_, {At(family)}, [] { return true; });
  EXPECT_EQ(session.Run(0).verdict, Verdict::kInterrupted);
}

TEST_F(SessionTest, RepetitionsAreSeparateOutcomes) {
  const Family family = TestFamily(device_, 1e-3);
  Session session(options_, device_, {At(family)}, nullptr);
  const Outcome& first = session.Run(0);
  const Outcome& second = session.Run(0);
  EXPECT_EQ(first.repetition, 0);
  EXPECT_EQ(second.repetition, 1);
  EXPECT_EQ(session.OutcomesOf(0).size(), 2);
}

TEST_F(SessionTest, WhatIsRestoredDoesNotRunAgain) {
  const Family family = TestFamily(device_, 1e-3);
  Session session(options_, device_, {At(family)}, nullptr);
  Outcome before = session.Run(0);
  before.repetition = 1;
  before.summary.median = 42;
  Session next(options_, device_, {At(family)}, nullptr);
  std::vector<int> measured;
  next.OnFinished([&](const Outcome& outcome) { measured.push_back(outcome.repetition); });
  next.Restore({before});
  EXPECT_NE(next.Run(0).summary.median, 42) << "the first repetition was not restored";
  EXPECT_EQ(next.Run(0).summary.median, 42);
  EXPECT_NE(next.Run(0).summary.median, 42) << "it is taken once";
  EXPECT_THAT(measured, testing::ElementsAre(0, 2));
}

TEST_F(SessionTest, ARestoredFailureIsStillAFailure) {
  const Family family = TestFamily(device_, 1e-3);
  Session session(options_, device_, {At(family)}, nullptr);
  Outcome failed;
  failed.name = At(family).name;
  failed.verdict = Verdict::kFailed;
  session.Restore({failed});
  session.Run(0);
  EXPECT_EQ(session.failed(), 1);
}

TEST_F(SessionTest, OutOfMemorySaysWhatWasAskedForPredictedAndFree) {
  const Family family = TestFamily(device_, 1e-3).Build([](const Point&, Inputs&) -> absl::StatusOr<Case> {
    at::empty({int64_t{1} << 50}, at::kByte);
    return absl::InternalError("a pebibyte was there");
  });
  Session session(options_, device_, {At(family)}, nullptr);
  const Outcome& outcome = session.Run(0);
  EXPECT_EQ(outcome.verdict, Verdict::kSkipped);
  EXPECT_THAT(outcome.reason, testing::AllOf(HasSubstr("1125899906842624 bytes"), HasSubstr("244 MiB predicted"),
                                             HasSubstr("7.45 GiB free")));
}

TEST_F(SessionTest, WhateverIsThrownIsAFailedCase) {
  const Family family = TestFamily(device_, 1e-3).Build([](const Point&, Inputs&) -> absl::StatusOr<Case> { throw 7; });
  Session session(options_, device_, {At(family)}, nullptr);
  EXPECT_EQ(session.Run(0).verdict, Verdict::kFailed);
}

TEST_F(SessionTest, StealMakesACaseNoisy) {
  const Family family = TestFamily(device_, 1e-3).Build([this](const Point&, Inputs& in) {
    const at::Tensor x = in.Randn({4});
    return absl::StatusOr<Case>(Case{.step =
                                         [this] {
                                           device_.fake_clock.Advance(1e-3);
                                           device_.conditions.stolen_seconds += 0.5e-3;
                                         },
                                     .result = [=] { return std::vector{x}; },
                                     .reference = [=] { return std::vector{x}; }});
  });
  const Family calm = TestFamily(device_, 1e-3, "calm");
  Session session(options_, device_, {At(family), At(calm)}, nullptr);
  EXPECT_EQ(Counter(session.Run(0), "noisy"), 1);
  EXPECT_EQ(Counter(session.Run(1), "noisy"), 0);
}

}  // namespace
}  // namespace roofbench
