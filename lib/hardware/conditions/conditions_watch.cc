// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/conditions/conditions_watch.h"

#include <algorithm>
#include <utility>

#include "lib/hardware/conditions/handover.h"
#include "lib/hardware/device_facts.h"
#include "lib/hardware/system_tree.h"
#include "lib/timing/statistics.h"

namespace roofbench::hardware {
namespace {

// Returns the larger value; an unknown one ranks below every other.
std::optional<double> Larger(std::optional<double> a, std::optional<double> b) { return std::max(a, b); }

std::optional<double> MedianOr(const std::vector<double>& readings, std::optional<double> other) {
  return readings.empty() ? other : timing::Median(readings);
}

bool Grew(std::optional<double> before, std::optional<double> after) { return before && after && *after > *before; }

// The kernel's count of thermal slowdowns of the package, where the processor reports them (Intel).
double ThrottleEvents() {
  return SystemTree("").Number("/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count").value_or(0);
}

}  // namespace

Conditions ReadProcessorConditions() {
  const ProcessorTime time = ReadProcessorTime().value_or(ProcessorTime{});
  return {.stolen_seconds = time.stolen, .busy_seconds = time.busy, .throttle_events = ThrottleEvents()};
}

ConditionsWatch::ConditionsWatch(WatchedDevice device)
    : device_(std::move(device)),
      handover_(Handover()),
      before_(device_.read()),
      start_(device_.clock.HostSeconds()),
      own_start_(OwnCpuSeconds()) {
  if (!device_.is_momentary) return;
  device_.clock.WhileBusy([this] {
    const Conditions now = device_.read();
    if (now.clock_hertz) loaded_hertz_.push_back(*now.clock_hertz);
    if (now.watts) loaded_watts_.push_back(*now.watts);
    Note(now);
  });
}

ConditionsWatch::~ConditionsWatch() { device_.clock.WhileBusy(nullptr); }

double ConditionsWatch::OwnCpuSeconds() const {
  return device_.clock.ProcessCpuSeconds() + (device_.other_cpu ? device_.other_cpu() : 0);
}

void ConditionsWatch::Note(const Conditions& now) {
  thermal_ = thermal_ || now.thermal;
  power_capped_ = power_capped_ || now.power_capped;
  clock_hertz_ = Larger(clock_hertz_, now.clock_hertz);
  watts_ = Larger(watts_, now.watts);
}

void ConditionsWatch::Poll() {
  if (device_.is_momentary) Note(device_.read());
}

MeasuredConditions ConditionsWatch::Finish() {
  const double wall = device_.clock.HostSeconds() - start_;
  const double own = OwnCpuSeconds() - own_start_;
  const Conditions after = device_.read();
  Note(after);
  MeasuredConditions conditions;
  if (const double processors = wall * device_.processors; processors > 0) {
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
  conditions.handover_seconds = Handover();
  conditions.moved =
      handover_ && conditions.handover_seconds && AreOfTwoPlaces(*handover_, *conditions.handover_seconds);
  return conditions;
}

}  // namespace roofbench::hardware
