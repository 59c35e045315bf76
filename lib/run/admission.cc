// SPDX-License-Identifier: Apache-2.0
#include "lib/run/admission.h"

#include <ATen/core/grad_mode.h>
#include <omp.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/aten/precision_scopes.h"
#include "lib/base/text.h"
#include "lib/results/counters.h"
#include "lib/run/measuring.h"
#include "lib/suite/inputs.h"
#include "lib/suite/operand_cache.h"

namespace roofbench {
namespace {

// Allowances for the error of a step's own prediction and for the process's other memory.
constexpr double kMemoryMargin = 1.1;
constexpr double kMemoryReserve = 256e6;
// Work that finishes in time even at this rate needs no prediction: nothing useful runs slower.
constexpr double kCrawl = 2e8;  // operations and bytes per second
// Suites leave out steps longer than this (seconds).
constexpr double kSuiteStepLimits[] = {1.0, 5.0, 60.0, 60.0, 60.0};
static_assert(std::size(kSuiteStepLimits) == static_cast<std::size_t>(Suite::kMachine) + 1);
// Families of long steps run above this share of their roof, so the roof can predict their time.
constexpr double kLongStepRoof = 0.2;

constexpr double kTrustedRatio = 16;    // a point with work smaller by at most this factor predicts well enough
constexpr double kPilotSeconds = 0.05;  // as does a step that takes this long
constexpr double kAboveOverhead = 4;    // a step that takes so many times the smallest one's time is mostly work
constexpr double kTiny = 64;            // divisor of the sizes of the smallest pilot run, which is mostly overhead
constexpr double kSmall = 16;           // divisor of the sizes of the second pilot run; both are larger if
constexpr double kFirstWork = 2e9;      // the second would exceed this work, which takes seconds even in a bad case
constexpr double kGrowth = 1.25;        // growth of every size between pilot runs, and at least of their work:
constexpr double kWorkGrowth = 1.5;     // where the time grows with it
constexpr double kOverheadGrowth = 4;   // where the last run was mostly overhead

// While it lives, parallel regions that the calling thread starts have one thread: those of LibTorch, oneDNN and our
// kernels, all of which use OpenMP. at::set_num_threads would also change MKL's settings for good.
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() { omp_set_num_threads(before_); }

 private:
  const int before_ = omp_get_max_threads();
};

bool IsSize(const AxisSpec& axis) { return axis.choices.empty() && !axis.fractions; }

// The point without its sizes: implementation, precision and so on.
std::string KindOf(const Family& family, const Point& point) {
  std::string kind = family.name();
  for (const AxisSpec& axis : family.axes()) {
    if (!IsSize(axis)) absl::StrAppend(&kind, "/", axis.name, ":", point.Text(axis.name));
  }
  return kind;
}

// The point with every size divided, to at least 1; nullopt if nothing changes.
std::optional<Point> Smaller(const Family& family, const Point& point, double divisor) {
  Point smaller = point;
  for (const AxisSpec& axis : family.axes()) {
    if (!IsSize(axis)) continue;
    // Sizes that follow another axis shrink with it.
    const bool own = std::any_of(point.values().begin(), point.values().end(), [&](const auto& value) {
      return value.first == axis.name && value.second != axis.default_value;
    });
    if (!own) continue;
    const int64_t size = point.Int(axis.name);
    // Multiples of 16 stay multiples, because packed formats require it.
    const int64_t unit = size % 16 == 0 ? 16 : 1;
    const int64_t divided = static_cast<int64_t>(static_cast<double>(size) / divisor) / unit * unit;
    smaller = smaller.With(axis.name, absl::StrCat(std::max(unit, divided)));
  }
  if (smaller.Name() == point.Name()) return std::nullopt;
  return smaller;
}

// Divisor of the sizes for the second pilot run, before much is known of the time.
double SmallDivisor(const Family& family, const Point& point) {
  double divisor = kSmall;
  std::optional<Point> first = Smaller(family, point, divisor);
  while (first && WorkOf(family.CostOf(*first)) > kFirstWork) {
    std::optional<Point> next = Smaller(family, point, 2 * divisor);
    if (!next || next->Name() == first->Name()) break;  // every size is at its minimum
    first = std::move(next);
    divisor *= 2;
  }
  return divisor;
}

// The bound that the known points of a kind give for one with more work.
class Extrapolation {
 public:
  // `known`: seconds by work; only points with at most `work` count.
  Extrapolation(const std::map<double, double>& known, double work) : work_(work) {
    const auto next = known.upper_bound(work);
    if (next == known.begin()) return;
    smallest_ = *known.begin();
    largest_ = *std::prev(next);
  }

  bool empty() const { return largest_.first <= 0; }
  bool HasTwo() const { return smallest_.first < largest_.first; }
  double largest_work() const { return largest_.first; }
  bool IsAboveOverhead() const { return HasTwo() && largest_.second >= kAboveOverhead * smallest_.second; }

  // Seconds on the line through the smallest and the largest point, whose intercept is the overhead.
  double Seconds() const {
    if (!HasTwo()) return Proportional();
    const double slope = std::max(0.0, largest_.second - smallest_.second) / (largest_.first - smallest_.first);
    return largest_.second + slope * (work_ - largest_.first);
  }

  // Whether a larger pilot run would not change the verdict. A step that takes little longer than the smallest one
  // shows the overhead, and noise as large as that next to other programs: it proves that a case is fast, not that it
  // is slow.
  bool Settles(double limit) const {
    if (empty()) return false;
    if (largest_.second > std::max(limit, kPilotSeconds)) return true;
    const bool near = largest_.first * kTrustedRatio >= work_ || largest_.second >= kPilotSeconds;
    return near && (IsAboveOverhead() || Proportional() <= limit);
  }

 private:
  double Proportional() const { return largest_.second * work_ / largest_.first; }

  double work_;
  std::pair<double, double> smallest_ = {}, largest_ = {};  // work and seconds
};

// Bytes that a case needs, from its formula.
double NeededBytes(const workload::Cost& cost) { return cost.resident_bytes * kMemoryMargin + kMemoryReserve; }

// The case whose step time predicts this one: itself, or the one that its family names.
std::pair<const Family*, Point> PredictedAs(const PlannedCase& planned) {
  if (!planned.family->predict_as()) return {planned.family, planned.point};
  const Point alike = planned.family->predict_as()(planned.point);
  return {&FamilyNamed(alike.family()), alike};
}

}  // namespace

void Admission::Enter(const Family& family) {
  OperandCache::Enter(family.name());
  // Memory shared by cases of this family is either part of the prediction or can be freed.
  free_bytes_ = device_.FreeMemoryBytes() + OperandCache::bytes();
}

absl::Status Admission::Check(const PlannedCase& planned, const workload::Cost& cost, int64_t sharing) {
  for (const workload::Dtype dtype : workload::kDtypes) {
    if (cost.Flops(dtype) <= 0) continue;
    if (options_.slow_precisions && device_.SharesHostMemory() && dtype != workload::Dtype::kTf32) continue;
    if (absl::Status status = device_.Supports(dtype); !status.ok()) return status;
  }
  if (absl::Status status = planned.family->SupportOf(planned.point, device_); !status.ok()) return status;
  if (!options_.unverified) {
    const Implementation* implementation = planned.family->ImplementationOf(planned.point);
    const absl::Status verified =
        implementation == nullptr ? absl::OkStatus() : CheckVerified(*implementation, planned.point, device_);
    if (!verified.ok()) return verified;
  }
  if (free_bytes_ > 0 && static_cast<double>(sharing) * NeededBytes(cost) > free_bytes_) {
    return absl::ResourceExhaustedError("needs more memory than is free");
  }
  if (planned.point.Ranks() > 1) return absl::OkStatus();  // a pilot run would need the other ranks
  const double limit = MaxStepTime(*planned.family);
  if (WorkOf(cost) / kCrawl <= limit) return absl::OkStatus();
  const double roof_seconds = workload::RoofSeconds(cost, device_.MeasuredPeaks()).value_or(limit);
  if (planned.family->long_step() > 0 && roof_seconds < kLongStepRoof * limit) return absl::OkStatus();
  const auto [family, point] = PredictedAs(planned);
  StepTimePredictor& predictor = PredictorOf(*family);
  std::optional<double> predicted = predictor.Predict(*family, point, limit);
  if (predicted && *predicted > limit && device_.SharesHostMemory()) {
    // Once more: a machine that was busy for a moment keeps no case from running.
    predictor.ForgetPilotRuns(*family, point);
    predicted = std::min(*predicted, predictor.Predict(*family, point, limit).value_or(*predicted));
  }
  if (predicted && *predicted > limit) {
    return absl::DeadlineExceededError(absl::StrCat(
        "a step is predicted to take ", HumanTime(*predicted), ", above the ", HumanTime(limit), " of ",
        options_.max_step_time > 0 ? "--max_step_time" : "its suite", " (raise --max_step_time to run it)"));
  }
  return absl::OkStatus();
}

void Admission::Learn(const PlannedCase& planned, const Outcome& outcome) {
  const bool is_disturbed = std::ranges::any_of(
      outcome.noise, [](const std::string& reason) { return reason == "others" || reason == "stolen"; });
  if (is_disturbed && device_.SharesHostMemory()) return;
  const auto [family, point] = PredictedAs(planned);
  PredictorOf(*family).Learn(*family, point, outcome.summary.min);
}

std::string Admission::MemoryNote(const workload::Cost& cost) const {
  return absl::StrCat(" (memory: ", HumanBytes(NeededBytes(cost)), " predicted, ", HumanBytes(free_bytes_), " free)");
}

absl::StatusOr<double> Admission::PilotRun(const Family& family, const Point& point) {
  if (absl::Status status = family.SupportOf(point, device_); !status.ok()) return status;
  const Fp32Scope fp32(family.CostOf(point).Flops(workload::Dtype::kTf32) > 0);
  Inputs inputs(device_, options_.seed, point.Name(), options_.compile);
  const absl::StatusOr<Case> built = family.BuildAt(point, inputs);
  if (!built.ok()) return built.status();
  const at::AutoGradMode grad(built->autograd);
  return UndisturbedSeconds([&](timing::PhaseMarker& marker) { built->step(marker); }, built->phases.size());
}

// Beside other programs, every barrier of the step's threads waits until the last of them has had a time slice, and the
// others spin meanwhile: neither the time nor the CPU time of a short step says how long it takes alone, and a hundred
// times as long is usual. A single thread waits for no other, so its CPU time is that of its work. How many processors
// the step uses is seen with all threads: the calling thread takes part in every parallel region.
double Admission::UndisturbedSeconds(const timing::Step& step, std::size_t phases) {
  hardware::ConditionsWatch watch = WatchConditions(device_);
  const double cpu_before = device_.clock().ProcessCpuSeconds();
  const double thread_before = thread_cpu_();
  // The fastest sample, so that one disturbance does not keep a case from running.
  const double fastest = std::ranges::min(QuickSamples(device_.clock(), step, phases).seconds);
  const double thread = thread_cpu_() - thread_before;
  const double cpu = device_.clock().ProcessCpuSeconds() - cpu_before;
  if (!device_.SharesHostMemory() || !WasBesideOthers(watch.Finish())) return fastest;
  const auto threads = static_cast<double>(device_.threads());
  const double processors = thread > 0 ? std::clamp(cpu / thread, 1.0, threads) : threads;
  const OneThread one_thread;
  return std::min(fastest, QuickSamples(device_.clock(), step, phases).cpu_seconds_per_step / processors);
}

double ThreadCpuSeconds() {
  timespec used{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

double Admission::MaxStepTime(const Family& family) const {
  if (options_.max_step_time > 0) return options_.max_step_time;
  return std::max(kSuiteStepLimits[static_cast<int>(options_.suite)], family.long_step());
}

StepTimePredictor& Admission::PredictorOf(const Family& family) {
  return predictors_
      .try_emplace(family.name(),
                   StepTimePredictor([this, &family](const Point& point) { return PilotRun(family, point); }))
      .first->second;
}

double WorkOf(const workload::Cost& cost) { return cost.Flops() + cost.Bytes(); }

void StepTimePredictor::Learn(const Family& family, const Point& point, double seconds) {
  const std::string kind = KindOf(family, point);
  const double work = WorkOf(family.CostOf(point));
  known_[kind][work] = seconds;
  pilots_[kind].erase(work);
}

void StepTimePredictor::ForgetPilotRuns(const Family& family, const Point& point) {
  const std::string kind = KindOf(family, point);
  for (const double work : pilots_[kind]) known_[kind].erase(work);
  pilots_[kind].clear();
}

std::optional<double> StepTimePredictor::Predict(const Family& family, const Point& point, double limit) {
  const double work = WorkOf(family.CostOf(point));
  const std::string kind = KindOf(family, point);
  auto& known = known_[kind];
  const double small = SmallDivisor(family, point);
  double divisor = small * kTiny / kSmall;
  for (bool is_tiny = true; divisor > kGrowth; divisor = is_tiny ? small : divisor / kGrowth, is_tiny = false) {
    const Extrapolation from(known, work);
    if (from.Settles(limit)) break;
    const std::optional<Point> smaller = Smaller(family, point, divisor);
    if (!smaller) break;
    const double smaller_work = WorkOf(family.CostOf(*smaller));
    const double growth = from.IsAboveOverhead() ? kWorkGrowth : kOverheadGrowth;
    const bool tells_overhead = !from.HasTwo() && smaller_work < from.largest_work();
    if (!from.empty() && !tells_overhead && smaller_work < growth * from.largest_work()) continue;
    const absl::StatusOr<double> seconds = pilot_run_(*smaller);
    if (seconds.ok()) {
      known[smaller_work] = *seconds;
      pilots_[kind].insert(smaller_work);
    } else if (!is_tiny) {  // the smallest sizes are refused more often
      break;
    }
  }
  const Extrapolation from(known, work);
  return from.empty() ? std::nullopt : std::optional(from.Seconds());
}

}  // namespace roofbench
