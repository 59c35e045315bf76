// SPDX-License-Identifier: Apache-2.0
#include "lib/run/prediction.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

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

}  // namespace

double WorkOf(const workload::Cost& cost) { return cost.Flops() + cost.Bytes(); }

void StepTimePredictor::Learn(const Family& family, const Point& point, double seconds) {
  const double work = WorkOf(family.CostOf(point));
  known_[KindOf(family, point)][work] = {work, seconds};
}

std::optional<double> StepTimePredictor::Predict(const Family& family, const Point& point) {
  const double work = WorkOf(family.CostOf(point));
  auto& known = known_[KindOf(family, point)];
  const auto scaled = [&]() -> std::optional<double> {
    auto next = known.upper_bound(work);
    if (next == known.begin()) return std::nullopt;
    const Known& nearest = std::prev(next)->second;
    return nearest.seconds * work / nearest.work;
  };
  const auto is_trusted = [&] {
    const auto next = known.upper_bound(work);
    return next != known.begin() && std::prev(next)->first * kTrustedRatio >= work;
  };
  if (is_trusted()) return scaled();
  for (double divisor = FirstDivisor(family, point); divisor > kGrowth; divisor /= kGrowth) {
    const std::optional<Point> smaller = Smaller(family, point, divisor);
    if (!smaller) break;
    const double smaller_work = WorkOf(family.CostOf(*smaller));
    if (known.contains(smaller_work)) continue;
    if (const std::optional<double> seconds = scaled(); seconds && *seconds * smaller_work / work > kPilotSeconds)
      break;
    const absl::StatusOr<double> seconds = pilot_run_(*smaller);
    if (!seconds.ok()) break;
    known[smaller_work] = {smaller_work, *seconds};
  }
  return scaled();
}

}  // namespace roofbench
