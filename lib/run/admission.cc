// SPDX-License-Identifier: Apache-2.0
#include "lib/run/admission.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/aten/precision_scopes.h"
#include "lib/base/text.h"
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
constexpr double kSuiteStepLimits[] = {1.0, 5.0, 60.0};
// Families of long steps run above this share of their roof, so the roof can predict their time.
constexpr double kLongStepRoof = 0.2;

constexpr double kTrustedRatio = 16;   // a point with work smaller by at most this factor predicts well enough
constexpr double kPilotSeconds = 0.1;  // longer pilot runs are not worth their time
constexpr double kSmallest = 16;       // divisor of the sizes of the first pilot run; larger if
constexpr double kFirstWork = 2e9;     // it would exceed this work, which takes seconds even in a bad case
constexpr double kGrowth = 1.25;       // growth of every size between pilot runs

// The point without its sizes: implementation, precision and so on.
std::string KindOf(const Family& family, const Point& point) {
  std::string kind = family.name();
  for (const AxisSpec& axis : family.axes()) {
    if (!axis.choices.empty()) absl::StrAppend(&kind, "/", axis.name, ":", point.Text(axis.name));
  }
  return kind;
}

// The point with every size divided, to at least 1; nullopt if nothing changes.
std::optional<Point> Smaller(const Family& family, const Point& point, double divisor) {
  Point smaller = point;
  for (const AxisSpec& axis : family.axes()) {
    if (!axis.choices.empty()) continue;
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

// Divisor of the sizes for the first pilot run, before any time is known.
double FirstDivisor(const Family& family, const Point& point) {
  double divisor = kSmallest;
  std::optional<Point> first = Smaller(family, point, divisor);
  while (first && WorkOf(family.CostOf(*first)) > kFirstWork) {
    std::optional<Point> next = Smaller(family, point, 2 * divisor);
    if (!next || next->Name() == first->Name()) break;  // every size is at its minimum
    first = std::move(next);
    divisor *= 2;
  }
  return divisor;
}

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

absl::Status Admission::Check(const PlannedCase& planned, const workload::Cost& cost) {
  for (const workload::Dtype dtype : workload::kDtypes) {
    if (cost.Flops(dtype) <= 0) continue;
    if (absl::Status status = device_.Supports(dtype); !status.ok()) return status;
  }
  if (absl::Status status = planned.family->SupportOf(planned.point, device_); !status.ok()) return status;
  if (!options_.unverified) {
    const Implementation* implementation = planned.family->ImplementationOf(planned.point);
    const absl::Status verified =
        implementation == nullptr ? absl::OkStatus() : CheckVerified(*implementation, planned.point, device_);
    if (!verified.ok()) return verified;
  }
  if (free_bytes_ > 0 && NeededBytes(cost) > free_bytes_) {
    return absl::ResourceExhaustedError("needs more memory than is free");
  }
  const double limit = MaxStepTime(*planned.family);
  if (WorkOf(cost) / kCrawl <= limit) return absl::OkStatus();
  const double roof_seconds = workload::RoofSeconds(cost, device_.MeasuredPeaks()).value_or(limit);
  if (planned.family->long_step() > 0 && roof_seconds < kLongStepRoof * limit) return absl::OkStatus();
  const auto [family, point] = PredictedAs(planned);
  const std::optional<double> predicted = PredictorOf(*family).Predict(*family, point);
  if (predicted && *predicted > limit) {
    return absl::DeadlineExceededError(absl::StrCat(
        "a step is predicted to take ", HumanTime(*predicted), ", above the ", HumanTime(limit), " of ",
        options_.max_step_time > 0 ? "--max_step_time" : "its suite", " (raise --max_step_time to run it)"));
  }
  return absl::OkStatus();
}

void Admission::Learn(const PlannedCase& planned, double seconds) {
  const auto [family, point] = PredictedAs(planned);
  PredictorOf(*family).Learn(*family, point, seconds);
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
  // The fastest sample, so that one disturbance does not keep a case from running.
  return QuickSamples(
             device_, [&](timing::PhaseMarker& marker) { built->step(marker); }, built->phases.size())
      .min;
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
  known_[KindOf(family, point)][WorkOf(family.CostOf(point))] = seconds;
}

std::optional<double> StepTimePredictor::Predict(const Family& family, const Point& point) {
  const double work = WorkOf(family.CostOf(point));
  auto& known = known_[KindOf(family, point)];
  // The largest known point that is not larger than this one.
  const auto nearest = [&] {
    const auto next = known.upper_bound(work);
    return next == known.begin() ? known.end() : std::prev(next);
  };
  const auto scaled = [&]() -> std::optional<double> {
    const auto found = nearest();
    return found == known.end() ? std::nullopt : std::optional(found->second * work / found->first);
  };
  if (const auto found = nearest(); found != known.end() && found->first * kTrustedRatio >= work) return scaled();
  for (double divisor = FirstDivisor(family, point); divisor > kGrowth; divisor /= kGrowth) {
    const std::optional<Point> smaller = Smaller(family, point, divisor);
    if (!smaller) break;
    const double smaller_work = WorkOf(family.CostOf(*smaller));
    if (known.contains(smaller_work)) continue;
    if (const std::optional<double> seconds = scaled(); seconds && *seconds * smaller_work / work > kPilotSeconds)
      break;
    const absl::StatusOr<double> seconds = pilot_run_(*smaller);
    if (!seconds.ok()) break;
    known[smaller_work] = *seconds;
  }
  return scaled();
}

}  // namespace roofbench
