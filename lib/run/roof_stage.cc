// SPDX-License-Identifier: Apache-2.0
#include "lib/run/roof_stage.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/files.h"
#include "lib/base/text.h"
#include "lib/results/counters.h"
#include "lib/results/kept_roofs.h"
#include "lib/run/run_context.h"
#include "roofbench_version.h"

namespace roofbench {

namespace {

// Measures the roofs and returns the share of processor time that other programs and the hypervisor took.
double CalibrateAndWatch(const hardware::RoofNeeds& needs, Device& device) {
  hardware::ConditionsWatch watch = WatchConditions(device);
  device.Calibrate(needs);
  return TakenShare(watch.Finish());
}

// The roofs that a plan needs, without the known streams on which no case's time at its roof depends, even if their
// speed has halved or doubled since: the probe that confirms a restored stream takes buffers far larger than the
// caches.
hardware::RoofNeeds NeedsOf(const std::vector<PlannedCase>& plan, const Device& device) {
  constexpr double kChange = 2;
  const workload::Peaks slow = device.MeasuredPeaks().Scaled(workload::Bound::kMemory, 1 / kChange);
  const workload::Peaks fast = device.MeasuredPeaks().Scaled(workload::Bound::kMemory, kChange);
  hardware::RoofNeeds needs;
  hardware::RoofNeeds decisive;
  for (const PlannedCase& planned : plan) {
    const workload::Cost cost = planned.family->CostOf(planned.point);
    needs |= hardware::NeedsOf(cost);
    const std::optional<double> seconds = workload::RoofSeconds(cost, slow);
    if (!seconds || seconds != workload::RoofSeconds(cost, fast)) decisive |= hardware::NeedsOf(cost);
  }
  needs.streams &= decisive.streams | ~hardware::NeedsOf(device.RoofReadings()).streams;
  return needs;
}

// `find_needs` is called once the known roofs are restored.
template <typename FindNeeds>
RoofOrigin Prepare(const RunOptions& options, const FindNeeds& find_needs, Device& device) {
  if (options.roofs == RoofSource::kOff || options.sampling.roof_share <= 0) return {.text = "off"};
  // Without a private folder there is nothing to reuse, which does not justify a failure.
  const absl::StatusOr<std::string> folder = PrivateCacheFolder("roofs");
  std::optional<KeptRoofs> kept;
  if (options.roofs == RoofSource::kReuse && folder.ok()) {
    const RoofConditions conditions = {.version = ROOFBENCH_VERSION,
                                       .revision = ROOFBENCH_GIT_REVISION,
                                       .build_type = ROOFBENCH_BUILD_TYPE,
                                       .kind = std::string(device.kind()),
                                       .name = device.name(),
                                       .threads = device.threads(),
                                       .context = device.Context()};
    kept.emplace(*folder, conditions, absl::StrCat(VersionLine(options), ", ", View(Name(options.allocator))));
  }
  KeptRoofs::Content known;
  if (kept) known = kept->Load(SecondsSince1970());
  if (!known.readings.empty()) device.RestoreRoofs(known.readings);
  const double other_load = CalibrateAndWatch(find_needs(), device);
  const std::vector<hardware::RoofReading> readings = device.RoofReadings();
  const auto reused =
      std::ranges::count_if(readings, [&](const hardware::RoofReading& reading) { return known.Has(reading); });
  const bool measured_any = std::cmp_less(reused, readings.size());
  RoofOrigin origin = {.text = "measured", .other_load = measured_any ? other_load : known.other_load};
  if (measured_any) origin.load_now = other_load;
  origin.is_reused = reused > 0;
  if (origin.is_reused) {
    origin.text = absl::StrFormat("%smeasured %.0f min before and reused (--roofs=measure measures again)",
                                  measured_any ? "partly " : "", known.age_seconds / 60);
    if (measured_any && known.other_load) origin.other_load = std::max(other_load, *known.other_load);
  }
  if (kept && measured_any && other_load <= KeptRoofs::kQuietShare) {
    // An error is harmless: the run has its roofs, and the next start can measure them again.
    kept->Save(readings, SecondsSince1970(), origin.other_load).IgnoreError();
  }
  return origin;
}

}  // namespace

RoofOrigin PrepareRoofs(const RunOptions& options, const std::vector<PlannedCase>& plan, Device& device) {
  return Prepare(
      options, [&] { return NeedsOf(plan, device); }, device);
}

RoofOrigin PrepareRoofs(const RunOptions& options, const hardware::RoofNeeds& needs, Device& device) {
  return Prepare(
      options, [&] { return needs; }, device);
}

}  // namespace roofbench
