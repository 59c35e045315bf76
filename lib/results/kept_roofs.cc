// SPDX-License-Identifier: Apache-2.0
#include "lib/results/kept_roofs.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/files.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/hardware/system_tree.h"

namespace roofbench {
namespace {

using hardware::RoofReading;

constexpr double kMostAge = 3600;  // seconds
constexpr uint64_t kMostBytes = 1 << 20;

// A reading that was measured again has another rate.
bool IsSame(const RoofReading& one, const RoofReading& other) {
  return one.roof == other.roof && one.variant == other.variant && one.rate == other.rate;
}

// Empty if the value is not a string.
std::string Text(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::string RoofConditions::Key() const {
  const std::set<std::string> facts = {"device_arch", "cpu_isa",    "cpu_affinity",
                                       "cpu_caches",  "gpu_driver", "gpu_pci_bus_id"};
  std::string key = absl::StrCat(version, "|", revision, "|", build_type, "|", kind, "|", name, "|", threads, "|",
                                 hardware::SystemTree("").Text("/proc/sys/kernel/random/boot_id"));
  for (const auto& [fact, value] : context) {
    if (facts.contains(fact)) absl::StrAppend(&key, "|", fact, "=", value);
  }
  return key;
}

bool KeptRoofs::Content::Has(const RoofReading& reading) const {
  return std::ranges::any_of(readings, [&](const RoofReading& one) { return IsSame(one, reading); });
}

KeptRoofs::KeptRoofs(const std::string& folder, const RoofConditions& conditions, std::string library)
    : key_(conditions.Key()),
      path_(absl::StrFormat("%s/%016x.json", folder, PortableHash(key_))),
      library_(std::move(library)) {}

std::string KeptRoofs::LibraryOf(const RoofReading& reading) const {
  return hardware::NeedsOf({reading}).dtypes.any() ? library_ : "";
}

KeptRoofs::File KeptRoofs::Read(double now) const {
  File file;
  const auto json = ParseJsonObject(ReadFile(path_, kMostBytes).value_or(""), /*depth=*/4);
  if (!json.ok() || Text(*json, "key") != key_ || !json->contains("readings")) return file;
  file.other_load = FiniteNumber(*json, "other_load");
  for (const nlohmann::json& one : (*json)["readings"]) {
    if (!one.is_object() || Text(one, "roof").empty() || Text(one, "variant").empty()) return {};
    const std::optional<double> measured = FiniteNumber(one, "measured");
    const std::optional<double> rate = FiniteNumber(one, "rate");
    const hardware::RateRange range = {.slow = FiniteNumber(one, "slow").value_or(0),
                                       .fast = FiniteNumber(one, "fast").value_or(0)};
    // A damaged file: every share of such a roof would be wrong.
    if (!measured || !rate || *rate <= 0 || range.slow < 0 || range.fast < range.slow) return {};
    if (*measured > now || now - *measured > kMostAge) continue;
    file.kept.push_back({.reading = {.roof = Text(one, "roof"),
                                     .variant = Text(one, "variant"),
                                     .rate = *rate,
                                     .best = one.contains("best") && one["best"] == true,
                                     .range = range},
                         .library = Text(one, "library"),
                         .measured = *measured});
  }
  return file;
}

KeptRoofs::Content KeptRoofs::Load(double now) const {
  const File file = Read(now);
  Content content;
  content.other_load = file.other_load;
  for (const Kept& one : file.kept) {
    if (one.library != LibraryOf(one.reading)) continue;
    content.readings.push_back(one.reading);
    content.measured.push_back(one.measured);
    content.age_seconds = std::max(content.age_seconds, now - one.measured);
  }
  return content;
}

absl::Status KeptRoofs::Save(const std::vector<RoofReading>& readings, double now,
                             std::optional<double> other_load) const {
  const std::vector<Kept> before = Read(now).kept;
  std::vector<Kept> kept;
  for (const RoofReading& reading : readings) {
    const auto known = std::ranges::find_if(before, [&](const Kept& one) { return IsSame(one.reading, reading); });
    kept.push_back({reading, LibraryOf(reading), known == before.end() ? now : known->measured});
  }
  std::ranges::copy_if(before, std::back_inserter(kept),
                       [&](const Kept& one) { return one.library != LibraryOf(one.reading); });
  nlohmann::ordered_json json = {{"key", key_}, {"readings", nlohmann::ordered_json::array()}};
  if (other_load) json["other_load"] = *other_load;
  for (const Kept& one : kept) {
    json["readings"].push_back({{"roof", one.reading.roof},
                                {"variant", one.reading.variant},
                                {"library", one.library},
                                {"rate", one.reading.rate},
                                {"best", one.reading.best},
                                {"slow", one.reading.range.slow},
                                {"fast", one.reading.range.fast},
                                {"measured", one.measured}});
  }
  return WriteFile(path_, absl::StrCat(json.dump(1), "\n"));
}

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace roofbench
