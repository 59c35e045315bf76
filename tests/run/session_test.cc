// SPDX-License-Identifier: Apache-2.0
#include "lib/run/session.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <thread>

#include "lib/observe/peak_memory.h"
#include "lib/run/built_case.h"
#include "lib/run/profiling.h"
#include "lib/suite/operand_cache.h"
#include "lib/timing/statistics.h"
#include "tests/base/temp_folder.h"
#include "tests/run/simple_case.h"

namespace roofbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Its first probes read half the rate.
class ProbedDevice : public FakeDevice {
 public:
  RoofGauge Gauge(const workload::Cost& cost, CacheState cache) override {
    ++gauges;
    RoofGauge gauge = FakeDevice::Gauge(cost, cache);
    if (gauge.probe) {
      gauge.probe = [this, probe = gauge.probe](double seconds) {
        return probe(seconds) * (++probes <= slow_probes ? 0.5 : 1);
      };
    }
    return gauge;
  }

  int gauges = 0;  // so far
  int probes = 0;
  int slow_probes = 0;
};

class SessionTest : public testing::Test {
 protected:
  SessionTest() { options_.reference = "a100-sxm4-40gb"; }

  static PlannedCase At(const Family& family, const std::string& impl = "good", const std::string& n = "64") {
    return PlannedOf(family, {{"impl", impl}, {"n", n}});
  }

  // The outcome of one case in a session of its own.
  Outcome Run(const PlannedCase& planned) { return Session(options_, device_, {planned}, nullptr).Run(0); }
  // The same for a case whose steps take `seconds`.
  Outcome RunFor(double seconds, const std::string& impl = "good", const std::string& n = "64") {
    const Family family = TestFamily(device_, seconds);
    return Run(At(family, impl, n));
  }

  RunOptions options_;
  ProbedDevice device_;
};

TEST_F(SessionTest, MeasuresAgainstTheRoofProbedWithTheCase) {
  // 512 bytes a step; at 1 GB/s the roof allows 0.512 us, and a step takes 2.048 us.
  const Outcome outcome = RunFor(2.048e-6);
  ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  EXPECT_NEAR(outcome.summary.median, 2.048e-6, 1e-12);
  EXPECT_NEAR(Counter(outcome, "roof"), 0.25, 1e-6);
  EXPECT_NEAR(Counter(outcome, "bytes/s"), 250e6, 1);
  EXPECT_NEAR(Counter(outcome, "a100_mem_util"), 0.25e9 / 1555e9, 1e-9);
  EXPECT_EQ(Counter(outcome, "mem_util"), -1) << "the device has no datasheet";
  EXPECT_EQ(Counter(outcome, "FLOP/s"), -1);
  EXPECT_GT(Counter(outcome, "peak_mem"), 2 * 64 * 4 - 1);
  // At half of the calibrated memory speed, the same time is twice as near to the roof.
  device_.roof_rate = 0.5e9;
  EXPECT_NEAR(Counter(RunFor(2.048e-6), "roof"), 0.5, 1e-6);
}

TEST_F(SessionTest, NoRoofIsMeasuredWhereNoneIsWanted) {
  options_.sampling.roof_share = 0;
  const Outcome outcome = RunFor(2.048e-6);
  ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  EXPECT_EQ(Counter(outcome, "roof"), -1);
  EXPECT_EQ(device_.gauges, 0) << "that of a warm case takes longer than its steps";
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
        const auto step = [&device, sum_seconds](timing::PhaseMarker& marker) {
          device.fake_clock.Advance(1e-6);
          marker.End(2);
          device.fake_clock.Advance(2e-6);
          marker.End(0);
          device.fake_clock.Advance(sum_seconds);
          marker.End(1);
        };
        return CaseOf(in.Randn({at.Int("n")}), step, {"products", "sum", "rest"});
      });
}

TEST_F(SessionTest, PhasesHaveTheRoofOfTheirOwnOperations) {
  const Family family = InParts(device_, 4e-6);
  const Outcome outcome = Run(At(family));
  ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  EXPECT_NEAR(Counter(outcome, "products_roof"), 0.5, 1e-6);
  EXPECT_NEAR(Counter(outcome, "sum_roof"), 0.75, 1e-6);
  EXPECT_EQ(Counter(outcome, "rest_roof"), -1);
  // The phases' times at the roof add up to the step's.
  const double at_roof = Counter(outcome, "products_roof") * Counter(outcome, "products_ms") +
                         Counter(outcome, "sum_roof") * Counter(outcome, "sum_ms");
  EXPECT_NEAR(at_roof, Counter(outcome, "roof") * Counter(outcome, "mean_ms"), 1e-9);
}

// Each mark takes as long as a quarter of the step.
TEST_F(SessionTest, MarksThatDisturbAreBesideTheSamples) {
  int marked_steps = 0;
  const auto step = [&](timing::PhaseMarker& marker) {
    const bool is_marked = dynamic_cast<timing::IgnoredPhases*>(&marker) == nullptr;
    marked_steps += is_marked ? 1 : 0;
    for (const int phase : {0, 1}) {
      device_.fake_clock.Advance(is_marked ? 2.5e-6 : 2e-6);
      marker.End(phase);
    }
  };
  const Family family = TestFamily(device_, 0).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
    Case built = CaseOf(in.Randn({4}), step, {"quantize", "product"});
    built.marks_beside = true;
    return built;
  });
  const Outcome outcome = Run(At(family));
  ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  EXPECT_NEAR(outcome.summary.median, 4e-6, 1e-12);
  EXPECT_NEAR(Counter(outcome, "quantize_ms"), 2.5e-3, 1e-9);
  EXPECT_NEAR(Counter(outcome, "product_ms"), 2.5e-3, 1e-9);
  EXPECT_GE(marked_steps, 3);
}

TEST_F(SessionTest, APhaseAboveItsRoofHasNoShare) {
  // The sum takes two thirds of what the roof allows; the step as a whole stays below it.
  const Family family = InParts(device_, 2e-6);
  const Outcome outcome = Run(At(family));
  EXPECT_EQ(Counter(outcome, "disturbed"), 0);
  EXPECT_NEAR(Counter(outcome, "products_roof"), 0.5, 1e-6);
  EXPECT_EQ(Counter(outcome, "sum_roof"), -1);
}

TEST_F(SessionTest, NumbersThatNoCheckSeesAreNamed) {
  const auto share = [&](int64_t small, double value) {
    const at::Tensor expected = at::ones({1000});
    expected.narrow(0, 0, small).fill_(value);
    const at::Tensor result = expected.clone();
    result[999] += 3e-7;  // not the same to the bit
    const Family family = PlainFamily("rounded", "a result of small numbers")
                              .Axis({.name = "impl", .choices = {"good"}, .default_value = "good"})
                              .Axis({.name = "n"})
                              .Grid(Suite::kQuick, {{"n", {"64"}}})
                              .Cost([](const Point& /*at*/) { return workload::Cost(); })
                              .Build([&](const Point& /*at*/, Inputs& /*in*/) -> absl::StatusOr<Case> {
                                return Case{.step = [&](timing::PhaseMarker&) { device_.fake_clock.Advance(1e-6); },
                                            .result = [=] { return std::vector{result}; },
                                            .reference = [=] { return std::vector{expected}; }};
                              });
    const Outcome outcome = Run(At(family));
    EXPECT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
    return Counter(outcome, "unseen");
  };
  EXPECT_NEAR(share(950, 1e-9), 0.95, 0.1);
  EXPECT_EQ(share(400, 1e-9), -1);
  EXPECT_EQ(share(950, 0), -1) << "zeros are right";
  EXPECT_EQ(share(950, 0.1), -1);
}

TEST_F(SessionTest, FasterThanTheRoofIsAnError) {
  const Outcome outcome = RunFor(0.4e-6);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.reason, HasSubstr("cannot be"));
}

// The rates of caches are upper bounds that scatter, but twice the highest one of them is beyond any scatter.
TEST_F(SessionTest, AWarmCaseFarAboveItsCacheIsAnError) {
  const auto run_for = [&](double seconds) {
    const Family family = TestFamily(device_, seconds);
    return Run(PlannedOf(family, {{"impl", "good"}, {"n", "64"}, {"cache", "warm"}}));
  };
  const Outcome above = run_for(0.4e-6);  // 1.3 of the roof
  EXPECT_EQ(above.verdict, Verdict::kMeasured) << above.reason;
  EXPECT_EQ(Counter(above, "disturbed"), 1);
  const Outcome far_above = run_for(0.2e-6);  // 2.6 of it, as a step that does not do its work
  EXPECT_EQ(far_above.verdict, Verdict::kFailed);
  EXPECT_THAT(far_above.reason, HasSubstr("cannot be"));
  device_.roof_rate = 0.3e9;  // a busy machine: 4.3 of the rate probed with it, and 1.3 of the calibration's
  const Outcome disturbed = run_for(0.4e-6);
  EXPECT_EQ(disturbed.verdict, Verdict::kMeasured) << disturbed.reason;
  EXPECT_EQ(Counter(disturbed, "disturbed"), 1);
}

TEST_F(SessionTest, ADisturbedRoofGivesNoShare) {
  // 1.7 of the rate probed with the case, but not above the rate of the calibration.
  device_.roof_rate = 0.5e9;
  const Outcome outcome = RunFor(0.6e-6);
  EXPECT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  EXPECT_EQ(Counter(outcome, "disturbed"), 1);
  EXPECT_EQ(Counter(outcome, "roof"), -1);
  EXPECT_GT(timing::Median(outcome.roof_ratios), 1.5) << "the journal keeps the ratios";
}

TEST_F(SessionTest, AnImplausibleShareIsMeasuredOnceMore) {
  constexpr double kShare = 0.512 / 0.6;
  EXPECT_NEAR(Counter(RunFor(0.6e-6), "roof"), kShare, 1e-6);
  const int once = device_.probes;
  device_.slow_probes = 2 * once;  // all of a first measurement
  const Outcome again = RunFor(0.6e-6);
  EXPECT_EQ(device_.probes, 3 * once);
  EXPECT_EQ(Counter(again, "disturbed"), 0);
  EXPECT_NEAR(Counter(again, "roof"), kShare, 1e-6);
  device_.slow_probes = 1'000'000;
  EXPECT_EQ(Counter(RunFor(0.6e-6), "disturbed"), 1);
  EXPECT_EQ(device_.probes, 5 * once) << "not twice more";
}

// A number of samples that was asked for, and the first steps of a case.
TEST_F(SessionTest, SomeSamplesCannotBeTakenAgain) {
  const auto step = [this](timing::PhaseMarker&) { device_.fake_clock.Advance(0.6e-6); };
  for (const bool first_steps : {false, true}) {
    const Family family = TestFamily(device_, 0).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
      Case built = CaseOf(in.Randn({4}), step);
      if (first_steps) built.warmup_iters = 0;
      return built;
    });
    options_.sampling.exact_samples = !first_steps;
    options_.sampling.max_samples = 3;
    device_.probes = device_.slow_probes = 0;
    EXPECT_EQ(Counter(Run(At(family)), "disturbed"), 0);
    const int once = device_.probes;
    EXPECT_GT(once, 0);
    device_.slow_probes = 1'000'000;
    EXPECT_EQ(Counter(Run(At(family)), "disturbed"), 1);
    EXPECT_EQ(device_.probes, 2 * once);
  }
}

TEST_F(SessionTest, VerdictsOfCasesThatGoWrong) {
  const Family family = TestFamily(device_, 1e-3);
  const Family throws_number =
      TestFamily(device_, 1e-3, "number").Build([](const Point&, Inputs&) -> absl::StatusOr<Case> { throw 7; });
  const struct {
    PlannedCase planned;
    Verdict verdict;
    const char* reason;
  } table[] = {{At(family, "wrong"), Verdict::kFailed, "wrong result"},
               {At(family, "throws"), Verdict::kFailed, "the kernel broke"},
               {At(throws_number), Verdict::kFailed, "std::exception"},
               {At(family, "refuses"), Verdict::kSkipped, "no kernel for this"},
               {At(family), Verdict::kMeasured, ""}};
  std::vector<PlannedCase> plan;
  for (const auto& row : table) plan.push_back(row.planned);
  Session session(options_, device_, plan, nullptr);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const Outcome& outcome = session.Run(i);
    EXPECT_EQ(outcome.verdict, table[i].verdict) << plan[i].name;
    EXPECT_THAT(outcome.reason, HasSubstr(table[i].reason));
    EXPECT_EQ(outcome.counters.empty(), outcome.verdict != Verdict::kMeasured);
  }
  EXPECT_EQ(session.failed(), 3) << "a skipped case has not failed";
  options_.check = false;
  EXPECT_EQ(Run(At(family, "wrong")).verdict, Verdict::kMeasured);
  Session interrupted(options_, device_, {At(family)}, [] { return true; });
  EXPECT_EQ(interrupted.Run(0).verdict, Verdict::kInterrupted);
}

// A step of minutes is not followed by another, nor by a reference that takes as long.
TEST_F(SessionTest, AnInterruptionIsSeenBetweenAnyTwoSteps) {
  int steps = 0;
  int references = 0;
  for (int ends_after = 0; ends_after <= 1; ++ends_after) {
    steps = references = 0;
    const Family family = TestFamily(device_, 0).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
      const at::Tensor x = in.Randn({4});
      Case built = CaseOf(x, [&] {
        ++steps;
        device_.fake_clock.Advance(60);
      });
      built.reference = [&references, x] { return ++references, std::vector{x}; };
      return built;
    });
    Session session(options_, device_, {At(family)}, [&] { return steps > ends_after; });
    EXPECT_EQ(session.Run(0).verdict, ends_after == 0 ? Verdict::kInterrupted : Verdict::kMeasured);
    EXPECT_LE(steps, 1 + 2 * ends_after) << "the one that runs, and the least that sampling takes";
    EXPECT_EQ(references, ends_after);
  }
}

TEST_F(SessionTest, ACaseLeavesItsProcessAsItWas) {
  const std::filesystem::path here = std::filesystem::current_path();
  const Family family = TestFamily(device_, 1e-3).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
    return CaseOf(in.Randn({4}), [&] {
      std::filesystem::current_path("/");
      device_.fake_clock.Advance(1e-3);
    });
  });
  testing::internal::CaptureStderr();
  EXPECT_EQ(Run(At(family)).verdict, Verdict::kMeasured);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("changed the working folder of its process"));
  EXPECT_EQ(std::filesystem::current_path(), here);
}

TEST_F(SessionTest, AThreadThatACaseLeavesAtWorkIsNamed) {
  std::atomic<bool> ended = false;
  std::thread left;
  const Family family = TestFamily(device_, 1e-3).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
    return CaseOf(in.Randn({4}), [&] {
      if (!ended && !left.joinable()) {
        left = std::thread([&] {
          while (!ended) {
          }
        });
      }
      device_.fake_clock.Advance(1e-3);
    });
  });
  Session session(options_, device_, {At(family)}, nullptr);
  testing::internal::CaptureStderr();
  EXPECT_EQ(session.Run(0).verdict, Verdict::kMeasured);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("left a thread that still works"));
  EXPECT_TRUE(session.needs_new_process());
  ended = true;
  left.join();
  EXPECT_EQ(session.Run(0).verdict, Verdict::kMeasured);
  EXPECT_FALSE(session.needs_new_process());
}

TEST_F(SessionTest, AReasonHasALimit) {
  const Family family = TestFamily(device_, 1e-3).Build([](const Point&, Inputs&) -> absl::StatusOr<Case> {
    throw std::runtime_error(std::string(3'000'000, '\x1b'));
  });
  const Outcome outcome = Run(At(family));
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_LT(outcome.reason.size(), 3000);
  EXPECT_THAT(outcome.reason, testing::EndsWith("…"));
}

TEST_F(SessionTest, ATooLargeCaseIsSkippedWithBothFigures) {
  device_.free_bytes = 300e6;
  const Outcome outcome = RunFor(1e-3, "good", "100000000");
  EXPECT_EQ(outcome.verdict, Verdict::kSkipped);
  EXPECT_THAT(outcome.reason, AllOf(HasSubstr("needs more memory than is free"),
                                    HasSubstr("(memory: 1.06 GiB predicted, 286 MiB free)")));
}

TEST_F(SessionTest, APrecisionWithoutArithmeticRunsOnDemand) {
  const Family family = TestFamily(device_, 1e-3).Cost([](const Point& at) {
    return workload::Cost{
        .operations = {
            workload::Map(at.Number("n"), workload::Dtype::kFp32, 1, 1).WithFlops(workload::Dtype::kFp16, 1)}};
  });
  EXPECT_EQ(Run(At(family)).verdict, Verdict::kSkipped);
  options_.slow_precisions = true;
  EXPECT_EQ(Run(At(family)).verdict, Verdict::kMeasured);
}

TEST_F(SessionTest, ExhaustedMemoryIsSkippedWithTheBytesThatWereRequested) {
  const Family family = TestFamily(device_, 1e-3).Build([](const Point&, Inputs&) -> absl::StatusOr<Case> {
    at::empty({int64_t{1} << 50}, at::kByte);
    return absl::InternalError("a pebibyte was there");
  });
  const Outcome outcome = Run(At(family));
  EXPECT_EQ(outcome.verdict, Verdict::kSkipped);
  EXPECT_THAT(outcome.reason,
              AllOf(HasSubstr("1125899906842624 bytes"), HasSubstr("244 MiB predicted"), HasSubstr("7.45 GiB free")));
}

// Its steps before the samples are those of the case; memory is measured and recorded in others.
TEST_F(SessionTest, ASetWarmupLosesNeitherPeakMemoryNorItsSnapshot) {
  const TempFolder folder;
  options_.memory_snapshot = folder / ".";
  options_.sampling.roof_share = 0;
  for (const int64_t warmup : {0, 1, 5}) {
    int builds = 0;
    std::map<int, int> watched_steps;  // by build
    const Family family = TestFamily(device_, 1e-3).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
      const int build = ++builds;
      Case built = CaseOf(in.Randn({1024}), [&, build] {
        const at::Tensor temporary = at::ones({1 << 20});
        if (observe::PeakMemory::BytesNow()) ++watched_steps[build];
        device_.fake_clock.Advance(1e-3);
      });
      built.warmup_iters = warmup;
      return built;
    });
    const Outcome outcome = Run(PlannedOf(family, {{"cache", "warm"}}));
    ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
    EXPECT_EQ(outcome.samples.warmup_steps, warmup);
    EXPECT_EQ(watched_steps[1], 0) << "recording slows a step down";
    EXPECT_EQ(watched_steps[2], options_.profile.steps);
    EXPECT_NEAR(Counter(outcome, "peak_mem"), (4 << 20) + 4096, 1024);
    EXPECT_TRUE(std::filesystem::remove(folder / (ProfileStem(outcome.name) + ".pickle"))) << warmup;
  }
}

TEST_F(SessionTest, SamplesOutliveAFailureToMeasureMemory) {
  options_.sampling.roof_share = 0;
  int builds = 0;
  const Family family = TestFamily(device_, 1e-3).Build([&](const Point&, Inputs& in) -> absl::StatusOr<Case> {
    if (++builds == 2) throw std::runtime_error("out of handles");
    Case built = CaseOf(in.Randn({1024}), [this] { device_.fake_clock.Advance(1e-3); });
    built.warmup_iters = 1;
    return built;
  });
  Session session(options_, device_, {PlannedOf(family)}, nullptr);
  std::string lost;
  session.OnLostProfile([&](const absl::Status& status) { lost = std::string(status.message()); });
  const Outcome& outcome = session.Run(0);
  EXPECT_EQ(builds, 2);
  ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  EXPECT_NEAR(Counter(outcome, "mean_ms"), 1, 1e-9);
  EXPECT_EQ(Counter(outcome, "peak_mem"), -1);
  EXPECT_THAT(lost, AllOf(HasSubstr(outcome.name), HasSubstr("without peak_mem"), HasSubstr("out of handles")));
}

TEST_F(SessionTest, TheWarmupLastsAtLeastTheGivenTime) {
  options_.sampling.roof_share = 0;
  EXPECT_LT(RunFor(1e-3).samples.warmup_steps, 400);
  options_.min_warmup_time = 0.5;
  const Outcome outcome = RunFor(1e-3);
  EXPECT_GE(outcome.samples.warmup_steps, 490);
  EXPECT_LT(outcome.samples.warmup_steps, 900) << "the automatic one follows";
  EXPECT_NEAR(outcome.samples.first_step_seconds, 1e-3, 1e-9);
  options_.sampling.warmup_iters = 3;
  EXPECT_GE(RunFor(1e-3).samples.warmup_steps, 493);
}

TEST_F(SessionTest, ATooSlowCaseIsPredictedFromSmallerPoints) {
  // 2 s for a step of any size: the first pilot run, at 1/64 of the size, exceeds the limit of the suite.
  const Outcome outcome = RunFor(2.0, "good", "100000000");
  EXPECT_EQ(outcome.verdict, Verdict::kSkipped);
  EXPECT_THAT(outcome.reason,
              AllOf(HasSubstr("predicted to take 128 s"), HasSubstr("--max_step_time"), Not(HasSubstr("memory: "))));
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
  const Outcome outcome = Run(PlannedOf(named));
  EXPECT_EQ(outcome.verdict, Verdict::kSkipped);
  EXPECT_THAT(outcome.reason, HasSubstr("predicted to take 128 s"));
  EXPECT_EQ(built, 0) << "nothing as large is built to find out";
}

// Pilot runs come before the measurement of memory, and may make what the case shares with others.
TEST_F(SessionTest, SharedOperandsCountInThePeakOfEachCase) {
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
    Case built = CaseOf(in.Randn({16}), [&] { device_.fake_clock.Advance(1e-3); });
    built.shared_bytes = shared->unseen_bytes;
    return built;
  });
  // Large enough that a pilot run must find out how long it takes; and small. Warm: one copy.
  std::vector<PlannedCase> plan;
  for (const char* n : {"100000000", "64", "64"}) plan.push_back(PlannedOf(family, {{"n", n}, {"cache", "warm"}}));
  Session session(options_, device_, plan, nullptr);
  for (const std::size_t i : {0, 1, 2}) {
    const int before = builds;
    EXPECT_NEAR(Counter(session.Run(i), "peak_mem"), kBytes, 4096) << i;
    EXPECT_EQ(builds - before > 1, i == 0) << i;
  }
  EXPECT_EQ(made, 1);
  OperandCache::Enter("another family");
}

TEST_F(SessionTest, ColdCasesRotateOverSixteenLastLevelCaches) {
  device_.last_level_bytes = 64 * 1024;
  int builds = 0;
  const Family family = TestFamily(device_, 1e-3).Build([&](const Point& at, Inputs& in) -> absl::StatusOr<Case> {
    ++builds;
    return CaseOf(in.Randn({at.Int("n")}), [this] { device_.fake_clock.Advance(1e-3); });
  });
  Run(At(family, "good", "4096"));  // 16 KiB a copy
  EXPECT_EQ(builds, 16 * 64 / 16);
  builds = 0;
  Run(PlannedOf(family, {{"n", "4096"}, {"cache", "warm"}}));
  EXPECT_EQ(builds, 1);
}

// Where lines can be evicted there is one copy; the operands that the case keeps are evicted, not temporaries.
TEST_F(SessionTest, ColdCasesEvictTheirOperands) {
  device_.evicts = true;
  device_.last_level_bytes = 64 * 1024;
  int builds = 0;
  const Family family = TestFamily(device_, 1e-3).Build([&](const Point& at, Inputs& in) -> absl::StatusOr<Case> {
    ++builds;
    const at::Tensor x = in.Randn({at.Int("n")});
    return CaseOf(x, [=, this, grown = std::make_shared<at::Tensor>()] {
      if (!grown->defined()) *grown = at::empty({1000});
      const at::Tensor temporary = x + 1;
      device_.fake_clock.Advance(1e-3);
    });
  });
  const auto bytes = [&](const std::string& cache) {
    const absl::StatusOr<BuiltCase> built =
        BuildCase(PlannedOf(family, {{"n", "4096"}, {"cache", cache}}), options_, device_);
    std::size_t sum = 0;
    for (const hardware::MemoryRange& range : built->operands) sum += range.bytes;
    return sum;
  };
  EXPECT_EQ(bytes("cold"), 4 * (4096 + 1000));
  EXPECT_EQ(builds, 1);
  EXPECT_EQ(bytes("warm"), 0);
  const Outcome outcome = Run(At(family, "good", "4096"));
  EXPECT_EQ(outcome.verdict, Verdict::kMeasured);
  EXPECT_EQ(outcome.samples.steps_per_sample, 1);
}

TEST_F(SessionTest, RepetitionsAreSeparateOutcomes) {
  const Family family = TestFamily(device_, 1e-3);
  Session session(options_, device_, {At(family)}, nullptr);
  const Outcome& first = session.Run(0);
  for (int repetition = 1; repetition < 20; ++repetition) EXPECT_EQ(session.Run(0).repetition, repetition);
  EXPECT_EQ(first.repetition, 0);
  EXPECT_EQ(&session.OutcomesOf(0)[0], &first) << "references stay valid";
}

TEST_F(SessionTest, RestoredOutcomesDoNotRunAgain) {
  const Family family = TestFamily(device_, 1e-3);
  Outcome before = Run(At(family));
  before.repetition = 1;
  before.summary.median = 42;
  Outcome failed{.name = before.name, .repetition = 3, .verdict = Verdict::kFailed};
  Outcome other{.name = "of another plan", .repetition = 0};
  Session session(options_, device_, {At(family, "throws"), At(family)}, nullptr);
  std::vector<int> measured;
  session.OnFinished([&](const Outcome& outcome) { measured.push_back(outcome.repetition); });
  session.Restore({failed, other, before});
  EXPECT_NE(session.Run(1).summary.median, 42) << "the first repetition was not restored";
  EXPECT_EQ(session.Run(1).summary.median, 42);
  EXPECT_NE(session.Run(1).summary.median, 42) << "each is taken once";
  EXPECT_EQ(session.failed(), 0);
  EXPECT_EQ(session.Run(1).verdict, Verdict::kFailed);
  EXPECT_EQ(session.failed(), 1) << "a restored failure is still a failure";
  EXPECT_THAT(measured, testing::ElementsAre(0, 2));
}

TEST_F(SessionTest, StolenTimeMakesACaseNoisy) {
  const Family family = TestFamily(device_, 1e-3).Build([this](const Point&, Inputs& in) -> absl::StatusOr<Case> {
    return CaseOf(in.Randn({4}), [this] {
      device_.fake_clock.Advance(1e-3);
      device_.conditions.stolen_seconds += 0.5e-3;
    });
  });
  const Outcome noisy = Run(At(family));
  EXPECT_EQ(Counter(noisy, "noisy"), 1);
  EXPECT_THAT(noisy.noise, testing::Contains("stolen"));
  EXPECT_EQ(Counter(RunFor(1e-3), "noisy"), 0);
}

}  // namespace
}  // namespace roofbench
