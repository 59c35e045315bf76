// SPDX-License-Identifier: Apache-2.0
#include "lib/device/conditions/conditions_watch.h"

#include <algorithm>
#include <utility>

#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

// Returns the larger value; an unknown one ranks below every other.
std::optional<double> Larger(std::optional<double> a, std::optional<double> b) { return std::max(a, b); }

std::optional<double> MedianOr(const std::vector<double>& readings, std::optional<double> other) {
  return readings.empty() ? other : timing::Median(readings);
}

bool Grew(std::optional<double> before, std::optional<double> after) { return before && after && *after > *before; }

}  // namespace

ConditionsWatch::ConditionsWatch(Device& device, std::function<double()> other_cpu)
    : device_(device),
      other_cpu_(std::move(other_cpu)),
      before_(device.ReadConditions()),
      start_(device.clock().HostSeconds()),
      own_start_(OwnCpuSeconds()) {
  if (!device_.ConditionsAreMomentary()) return;
  device_.clock().WhileBusy([this] {
    const Conditions now = device_.ReadConditions();
    if (now.clock_hertz) loaded_hertz_.push_back(*now.clock_hertz);
    if (now.watts) loaded_watts_.push_back(*now.watts);
    Note(now);
  });
}

ConditionsWatch::~ConditionsWatch() { device_.clock().WhileBusy(nullptr); }

double ConditionsWatch::OwnCpuSeconds() const {
  return device_.clock().ProcessCpuSeconds() + (other_cpu_ ? other_cpu_() : 0);
}

void ConditionsWatch::Note(const Conditions& now) {
  thermal_ = thermal_ || now.thermal;
  power_capped_ = power_capped_ || now.power_capped;
  clock_hertz_ = Larger(clock_hertz_, now.clock_hertz);
  watts_ = Larger(watts_, now.watts);
}

void ConditionsWatch::Poll() {
  if (device_.ConditionsAreMomentary()) Note(device_.ReadConditions());
}

MeasuredConditions ConditionsWatch::Finish() {
  const double wall = device_.clock().HostSeconds() - start_;
  const double own = OwnCpuSeconds() - own_start_;
  const Conditions after = device_.ReadConditions();
  Note(after);
  MeasuredConditions conditions;
  if (const double processors = wall * device_.processors(); processors > 0) {
    conditions.stolen_share = (after.stolen_seconds - before_.stolen_seconds) / processors;
    const double others = after.busy_seconds - before_.busy_seconds - own;
    conditions.others_share = std::max(0.0, others) / processors;
  }
  conditions.throttled = after.throttle_events > before_.throttle_events || thermal_ ||
                         Grew(before_.thermal_seconds, after.thermal_seconds);
  // A driver that reports the clock also reports the reasons for it.
  if (clock_hertz_) {
    conditions.power_capped = power_capped_ || Grew(before_.power_cap_seconds, after.power_cap_seconds);
    conditions.clock_hertz = MedianOr(loaded_hertz_, clock_hertz_);
    conditions.watts = MedianOr(loaded_watts_, watts_);
  }
  return conditions;
}

}  // namespace roofbench
