// SPDX-License-Identifier: Apache-2.0
#include "lib/run/roof_stage.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/files.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/run/run_context.h"

namespace roofbench {
namespace {

constexpr double kMostAge = 3600;     // seconds
constexpr double kQuietShare = 0.05;  // roofs are kept only if other programs used at most this share of the processors

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Everything that affects the rate of a probe, except momentary conditions.
std::string KeyOf(const RunOptions& options, const Device& device) {
  const std::set<std::string> facts = {"device_arch", "cpu_isa",    "cpu_affinity",
                                       "cpu_caches",  "gpu_driver", "gpu_pci_bus_id"};
  std::string key =
      absl::StrCat(VersionLine(options), "|", device.kind(), "|", device.name(), "|", device.threads(), "|",
                   std::string(Name(options.allocator)), "|", ReadAll("/proc/sys/kernel/random/boot_id"));
  for (const auto& [name, value] : device.Context()) {
    if (facts.contains(name)) absl::StrAppend(&key, "|", name, "=", value);
  }
  return key;
}

// The place of the reading among these, their number if it is not one of them. One that was measured again has another
// rate.
std::size_t PlaceAmong(const std::vector<hardware::RoofReading>& readings, const hardware::RoofReading& reading) {
  const auto found = std::ranges::find_if(readings, [&](const hardware::RoofReading& one) {
    return one.roof == reading.roof && one.variant == reading.variant && one.rate == reading.rate;
  });
  return static_cast<std::size_t>(found - readings.begin());
}

// Empty if the value is not a string.
std::string Text(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

KeptRoofs::KeptRoofs(std::string folder, const RunOptions& options, const Device& device)
    : key_(KeyOf(options, device)) {
  path_ = absl::StrFormat("%s/%016x.json", folder, PortableHash(key_));
}

KeptRoofs::Content KeptRoofs::Load(double now) const {
  Content content;
  const auto json = ParseJsonObject(ReadAll(path_), /*depth=*/4);
  if (!json.ok() || Text(*json, "key") != key_ || !json->contains("readings")) return content;
  content.other_load = FiniteNumber(*json, "other_load");
  for (const nlohmann::json& one : (*json)["readings"]) {
    if (!one.is_object() || Text(one, "roof").empty() || Text(one, "variant").empty()) return {};
    const std::optional<double> measured = FiniteNumber(one, "measured");
    const std::optional<double> rate = FiniteNumber(one, "rate");
    if (!measured || !rate) return {};
    if (*measured > now || now - *measured > kMostAge) continue;
    content.measured.push_back(*measured);
    content.readings.push_back(
        {.roof = Text(one, "roof"),
         .variant = Text(one, "variant"),
         .rate = *rate,
         .best = one.contains("best") && one["best"] == true,
         .range = {.slow = FiniteNumber(one, "slow").value_or(0), .fast = FiniteNumber(one, "fast").value_or(0)}});
    content.age_seconds = std::max(content.age_seconds, now - *measured);
  }
  return content;
}

absl::Status KeptRoofs::Save(const std::vector<hardware::RoofReading>& readings, double now,
                             std::optional<double> other_load) const {
  const Content before = Load(now);
  const auto time_of = [&](const hardware::RoofReading& reading) {
    const std::size_t place = PlaceAmong(before.readings, reading);
    return place < before.measured.size() ? before.measured[place] : now;
  };
  nlohmann::ordered_json json = {{"key", key_}, {"readings", nlohmann::ordered_json::array()}};
  if (other_load) json["other_load"] = *other_load;
  for (const hardware::RoofReading& one : readings) {
    json["readings"].push_back({{"roof", one.roof},
                                {"variant", one.variant},
                                {"rate", one.rate},
                                {"best", one.best},
                                {"slow", one.range.slow},
                                {"fast", one.range.fast},
                                {"measured", time_of(one)}});
  }
  return WriteFile(path_, absl::StrCat(json.dump(1), "\n"));
}

double CalibrateAndWatch(const hardware::RoofNeeds& needs, Device& device) {
  hardware::ConditionsWatch watch = WatchConditions(device);
  device.Calibrate(needs);
  const MeasuredConditions meanwhile = watch.Finish();
  return meanwhile.others_share + meanwhile.stolen_share;
}

namespace {

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

}  // namespace

RoofOrigin PrepareRoofs(const RunOptions& options, const std::vector<PlannedCase>& plan, Device& device) {
  if (options.roofs == RoofSource::kOff || options.sampling.roof_share <= 0) return {.text = "off"};
  // Without a private folder there is nothing to reuse, which does not justify a failure.
  const absl::StatusOr<std::string> folder = PrivateCacheFolder("roofs");
  std::optional<KeptRoofs> kept;
  if (options.roofs == RoofSource::kReuse && folder.ok()) kept.emplace(*folder, options, device);
  KeptRoofs::Content known;
  if (kept) known = kept->Load(SecondsSince1970());
  if (!known.readings.empty()) device.RestoreRoofs(known.readings);
  const double other_load = CalibrateAndWatch(NeedsOf(plan, device), device);
  const std::vector<hardware::RoofReading> readings = device.RoofReadings();
  const auto reused = std::ranges::count_if(readings, [&](const hardware::RoofReading& reading) {
    return PlaceAmong(known.readings, reading) < known.readings.size();
  });
  const bool measured_any = std::cmp_less(reused, readings.size());
  RoofOrigin origin = {.text = "measured", .other_load = measured_any ? other_load : known.other_load};
  if (measured_any) origin.load_now = other_load;
  origin.is_reused = reused > 0;
  if (origin.is_reused) {
    origin.text = absl::StrFormat("%smeasured %.0f min before and reused (--roofs=measure measures again)",
                                  measured_any ? "partly " : "", known.age_seconds / 60);
    if (measured_any && known.other_load) origin.other_load = std::max(other_load, *known.other_load);
  }
  if (kept && measured_any && other_load <= kQuietShare) {
    // An error is harmless: the run has its roofs, and the next start can measure them again.
    kept->Save(readings, SecondsSince1970(), origin.other_load).IgnoreError();
  }
  return origin;
}

}  // namespace roofbench
