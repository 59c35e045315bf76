// SPDX-License-Identifier: Apache-2.0
#include "lib/run/admission.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "lib/workload/operators/elementwise.h"
#include "lib/workload/operators/products.h"
#include "tests/device/fake_device.h"
#include "tests/run/simple_case.h"
#include "tests/suite/plain_family.h"

namespace roofbench {
namespace {

Family Cube() {
  return PlainFamily("cube", "")
      .Axis({.name = "impl", .choices = {"fast", "slow"}, .default_value = "fast"})
      .Axis({.name = "m", .default_value = "n"})
      .Axis({.name = "n"})
      .Axis({.name = "share", .default_value = "1", .fractions = true})
      .Grid(Suite::kQuick, {{"n", {"64", "16384"}}})
      .Cost([](const Point& at) {
        return workload::Gemm{.m = at.Number("m"), .n = at.Number("n"), .k = at.Number("n")}.ForwardCost();
      })
      .Build([](const Point&, Inputs&) -> absl::StatusOr<Case> { return Case{}; });
}

class PredictionTest : public testing::Test {
 protected:
  Point At(const std::string& n, const std::string& impl = "fast") {
    return family_.Points(Suite::kQuick)[0].With("n", n).With("impl", impl);
  }

  Family family_ = Cube();
  std::vector<std::string> piloted_;
  static constexpr double kLimit = 1;  // seconds
  // An implementation a thousand times slower than any roof predicts: 1 ns per FLOP.
  StepTimePredictor predictor_{[this](const Point& point) -> absl::StatusOr<double> {
    piloted_.push_back(point.Name());
    return WorkOf(family_.CostOf(point)) * 1e-9;
  }};
};

TEST_F(PredictionTest, ScalesFromTheLargestPilotRunThatIsCheap) {
  const Point large = At("4096");
  const double exact = WorkOf(family_.CostOf(large)) * 1e-9;  // 138 s
  const std::optional<double> predicted = predictor_.Predict(family_, large, kLimit);
  ASSERT_TRUE(predicted.has_value());
  EXPECT_NEAR(*predicted, exact, 0.01 * exact);
  // n=64 shows the overhead; n=256 takes 0.03 s, n=320 0.07 s; n=400 would take 0.13 s and is not worth it.
  EXPECT_EQ(piloted_, std::vector<std::string>({"cube/n:64", "cube/n:256", "cube/n:320"}));
}

TEST_F(PredictionTest, APilotRunKeepsNumbersThatAreNoSizes) {
  const Point half = At("4096").With("share", "2.5");
  ASSERT_TRUE(predictor_.Predict(family_, half, kLimit).has_value());
  EXPECT_THAT(piloted_, testing::Each(testing::EndsWith("/share:2.5")));
}

TEST_F(PredictionTest, OverheadIsNotMultiplied) {
  // 100 us of overhead and 1 ps a unit of work: the smallest pilot run alone would predict 0.6 s in place of 0.14 s.
  StepTimePredictor predictor(
      [&](const Point& point) -> absl::StatusOr<double> { return 100e-6 + WorkOf(family_.CostOf(point)) * 1e-12; });
  const std::optional<double> predicted = predictor.Predict(family_, At("4096"), kLimit);
  ASSERT_TRUE(predicted.has_value());
  EXPECT_NEAR(*predicted, 0.138, 0.005);
}

// Beside other programs a step of any size waits for their time slices, once at each barrier of its threads: tens of
// milliseconds, and noise as large. That time times the ratio of the work would be hours.
TEST_F(PredictionTest, ABusyMachineSkipsNoFastCase) {
  constexpr double kNoise[] = {0.9, 2.4, 1.0, 1.7, 1.3, 2.8};
  for (const double overhead : {0.004, 0.03, 0.09}) {
    for (std::size_t first = 0; first < std::size(kNoise); ++first) {
      std::size_t pilot = first;
      StepTimePredictor predictor([&](const Point& point) -> absl::StatusOr<double> {
        return overhead * kNoise[pilot++ % std::size(kNoise)] + WorkOf(family_.CostOf(point)) * 1e-12;
      });
      const std::optional<double> predicted = predictor.Predict(family_, At("4096"), kLimit);
      ASSERT_TRUE(predicted.has_value());
      EXPECT_LT(*predicted, kLimit) << overhead << " " << first;
      EXPECT_LE(pilot - first, 10U);
      // The time of a smaller case on a busy machine proves nothing about a larger one either.
      predictor.Learn(family_, At("4096"), 0.14 + 2 * overhead);
      EXPECT_LT(*predictor.Predict(family_, At("6144"), kLimit), kLimit) << overhead << " " << first;
    }
  }
}

// The same overhead does not hide a case that is slow.
TEST_F(PredictionTest, ABusyMachineStillSkipsSlowCases) {
  StepTimePredictor predictor(
      [&](const Point& point) -> absl::StatusOr<double> { return 0.05 + WorkOf(family_.CostOf(point)) * 1e-9; });
  EXPECT_NEAR(*predictor.Predict(family_, At("4096"), kLimit), 138, 3);
  StepTimePredictor long_overhead([&](const Point&) -> absl::StatusOr<double> { return 1.5; });
  EXPECT_GT(*long_overhead.Predict(family_, At("4096"), kLimit), kLimit) << "a step of any size takes longer";
}

TEST_F(PredictionTest, TheFirstPilotRunIsShortHoweverLargeTheCase) {
  const Point huge = At("3000000");
  const double exact = WorkOf(family_.CostOf(huge)) * 1e-9;
  const std::optional<double> predicted = predictor_.Predict(family_, huge, kLimit);
  ASSERT_TRUE(predicted.has_value());
  EXPECT_NEAR(*predicted, exact, 0.01 * exact);
  // A sixteenth of the size would be half a year of this implementation.
  EXPECT_EQ(piloted_, std::vector<std::string>({"cube/n:176", "cube/n:720"}));
}

TEST_F(PredictionTest, AMeasuredPointNearbyNeedsNoPilotRun) {
  predictor_.Learn(family_, At("2048"), 3.0);
  const std::optional<double> predicted = predictor_.Predict(family_, At("4096"), kLimit);
  ASSERT_TRUE(predicted.has_value());
  EXPECT_NEAR(*predicted, 24, 0.1);
  EXPECT_TRUE(piloted_.empty());
}

TEST_F(PredictionTest, AnotherImplementationOrALargerPointPredictsNothing) {
  for (const Point& learned : {At("2048", "slow"), At("8192")}) {
    StepTimePredictor predictor = predictor_;
    predictor.Learn(family_, learned, 3.0);
    piloted_.clear();
    predictor.Predict(family_, At("4096"), kLimit);
    EXPECT_FALSE(piloted_.empty()) << learned.Name();
  }
}

TEST_F(PredictionTest, NoPilotRunNoPrediction) {
  StepTimePredictor blind([](const Point&) -> absl::StatusOr<double> { return absl::UnimplementedError("no"); });
  EXPECT_EQ(blind.Predict(family_, At("4096"), kLimit), std::nullopt);
}

// Steps on two processors whose time the other programs take as well: a thread alone runs a quarter of the time, and
// where two threads meet, one spins until the other one had its turn.
class BusyMachineTest : public testing::Test {
 protected:
  BusyMachineTest() { at::set_num_threads(2); }
  ~BusyMachineTest() override { at::set_num_threads(threads_before_); }

  // Admission's verdict on a step that takes `processor_seconds`, divided by two processors if it is parallel.
  absl::Status Check(double processor_seconds, bool is_parallel = true) {
    processor_seconds_ = processor_seconds;
    is_parallel_ = is_parallel;
    Admission admission(options_, device_, [this] { return thread_cpu_; });
    return Check(admission);
  }
  absl::Status Check(Admission& admission) const { return admission.Check(planned_, family_.CostOf(planned_.point)); }

  void Step(double processor_seconds) {
    const bool has_barriers = is_parallel_ && at::get_num_threads() > 1;
    const double spinning = has_barriers && is_busy_ ? 0.4 : 0;
    const double cpu = processor_seconds + spinning;
    const double of_caller = has_barriers ? cpu / 2 : cpu;
    const double wall = of_caller * (is_busy_ ? 4 : 1) + waiting_ + (moment_-- > 0 ? 1.5 : 0);
    thread_cpu_ += of_caller;
    device_.conditions.busy_seconds += is_busy_ ? 2 * wall : cpu;
    device_.fake_clock.Advance(wall, cpu / wall);
  }

  static constexpr double kElements = 1e8;
  const RunOptions options_;
  FakeDevice device_;
  bool is_busy_ = true;
  bool is_parallel_ = true;
  double waiting_ = 0;  // of a step, for no processor
  int moment_ = 0;      // steps that wait for long
  double processor_seconds_ = 0;
  double thread_cpu_ = 0;
  const int threads_before_ = at::get_num_threads();
  const Family family_ = PlainFamily("work", "")
                             .Axis({.name = "n"})
                             .Grid(Suite::kQuick, {{"n", {"100000000"}}})
                             .Cost([](const Point& at) { return workload::CopyStream{4 * at.Number("n")}.Cost(); })
                             .Build([this](const Point& at, Inputs&) -> absl::StatusOr<Case> {
                               const double seconds = processor_seconds_ * at.Number("n") / kElements;
                               return CaseOf(at::Tensor(), [this, seconds] { Step(seconds); });
                             });
  const PlannedCase planned_ = PlannedOf(family_);
};

TEST_F(BusyMachineTest, AdmitsWhatIsShortOnAQuietOne) {
  EXPECT_EQ(Check(1.8), absl::OkStatus()) << "0.9 s on two processors";
  EXPECT_EQ(Check(0.9, /*is_parallel=*/false), absl::OkStatus());
}

TEST_F(BusyMachineTest, SkipsWhatIsLongOnAQuietOne) {
  for (const bool is_parallel : {true, false}) {
    const absl::Status status = Check(is_parallel ? 2.4 : 1.2, is_parallel);
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(status.message(), testing::HasSubstr("predicted to take 1.20 s")) << is_parallel;
  }
}

TEST_F(BusyMachineTest, AMomentSkipsNothing) {
  is_busy_ = false;
  moment_ = 3;  // steps, all of the first pilot run
  EXPECT_EQ(Check(0.5), absl::OkStatus());
  moment_ = 1'000;
  EXPECT_THAT(Check(0.5).message(), testing::HasSubstr("predicted to take"));
}

TEST_F(BusyMachineTest, AQuietOneCountsTimeWithoutProcessors) {
  is_busy_ = false;
  waiting_ = 1.2;  // for a disk
  EXPECT_THAT(Check(0.01).message(), testing::HasSubstr("predicted to take"));
  waiting_ = 0;
  EXPECT_EQ(Check(1.8), absl::OkStatus());
}

TEST_F(BusyMachineTest, ATimeBesideOtherProgramsPredictsNothing) {
  for (const char* reason : {"others", "stolen", "drift"}) {
    Admission admission(options_, device_, [this] { return thread_cpu_; });
    admission.Learn(planned_, {.summary = {.min = 6.5}, .noise = {reason}});
    EXPECT_EQ(Check(admission).ok(), reason != std::string("drift")) << reason;
  }
}

}  // namespace
}  // namespace roofbench
