// SPDX-License-Identifier: Apache-2.0
#include "lib/run/doctor.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/text.h"
#include "lib/hardware/conditions/handover.h"
#include "lib/hardware/nvml.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

using hardware::Disturbance;

constexpr double kLoud = 0.03;      // share of the processors that other programs may use
constexpr double kUnsteady = 1.15;  // ratio of the fastest to the slowest tenth of the memory readings
constexpr char kQuieter[] = "end them (top shows them), or --wait_quiet=600";
constexpr int kReadings = 40;
constexpr std::chrono::milliseconds kPause(230);
constexpr double kReadingSeconds = 0.02;

DoctorReadings Read(Device& device) {
  // A stream much larger than any cache, as for the memory roof.
  const workload::Cost stream = {.operations = {{.bytes_read = 1e9}}, .resident_bytes = 1e9};
  device.Calibrate(hardware::NeedsOf(stream));
  const RoofGauge gauge = device.Gauge(stream, CacheState::kCold);
  DoctorReadings found;
  for (int i = 0; gauge.probe && i < kReadings; ++i) {
    if (const double rate = gauge.probe(kReadingSeconds); rate > 0) found.memory_rates.push_back(rate);
    if (const std::optional<double> seconds = device.HandoverSeconds()) found.handovers.push_back(*seconds);
    std::this_thread::sleep_for(kPause);
  }
  return found;
}

}  // namespace

std::string MemorySpeedText(const hardware::RateRange& speed, std::string_view when) {
  if (speed.fast <= 0) return "unknown";
  return absl::StrCat(HumanRate(speed.slow, "B/s"), " to ", HumanRate(speed.fast, "B/s"), " ", View(when));
}

std::string OtherLoadText(std::optional<double> share) {
  return share ? absl::StrFormat("%.1f %% while the roofs were measured", 100 * *share) : "unknown";
}

std::string BusyText(double others_share) {
  if (others_share <= kLoud) return "";
  return absl::StrFormat("other programs use %.0f %% of the processors: %s", 100 * others_share, kQuieter);
}

std::vector<Disturbance> MeasuredDisturbances(double others_share, const DoctorReadings& readings) {
  std::vector<Disturbance> found = {
      {"other_load", absl::StrFormat("%.1f %%", 100 * others_share),
       others_share > kLoud ? absl::StrCat("other programs use the processors: ", kQuieter) : ""}};
  if (!readings.handovers.empty()) {
    const auto [near, far] = std::ranges::minmax(readings.handovers);
    const bool moved = hardware::AreOfTwoPlaces(near, far);
    found.push_back(
        {"handover", absl::StrCat(HumanTime(near), " to ", HumanTime(far), " between threads, over ten seconds"),
         moved ? "the processors change places, now near each other and now apart: tools/report compare and "
                 "abba tell them from each other (docs/comparing.md)"
               : ""});
  }
  const std::vector<double>& rates = readings.memory_rates;
  if (rates.empty()) return found;
  const hardware::RateRange speed = {timing::Quantile(rates, 0.1), timing::Quantile(rates, 0.9)};
  found.push_back({"memory_speed", MemorySpeedText(speed, "over ten seconds"),
                   speed.slow * kUnsteady < speed.fast
                       ? "the memory speed varies, because other programs on this host use it, or as the processors "
                         "change places: compare by roof and not by time (tools/report abba --metric=roof)"
                       : ""});
  return found;
}

std::vector<Disturbance> GpuDisturbances(const Device& device, const std::string& library) {
  if (device.SharesHostMemory()) return {};
  std::map<std::string, std::string> facts;
  for (const auto& [key, value] : device.Context()) facts[key] = value;
  std::string why;
  const std::unique_ptr<hardware::Nvml> nvml = hardware::Nvml::Open(facts["gpu_pci_bus_id"], &why, library);
  if (nvml == nullptr) return {{"gpu_driver", absl::StrCat("does not answer: ", why)}};
  return hardware::GpuDisturbances(nvml->Facts(), nvml->Read());
}

std::string Report(const std::vector<Disturbance>& found) {
  std::string text;
  int disturbing = 0;
  for (const Disturbance& one : found) {
    absl::StrAppendFormat(&text, "  %-18s %s\n", one.fact, one.value);
    if (one.remedy.empty()) continue;
    ++disturbing;
    absl::StrAppendFormat(&text, "  %-18s   -> %s\n", "", one.remedy);
  }
  absl::StrAppend(&text, disturbing == 0 ? "Nothing that disturbs measurements was found.\n"
                                         : absl::StrCat(disturbing, " of ", found.size(), " disturb measurements.\n"));
  return text;
}

std::string Examine(Device& device) {
  std::vector<Disturbance> found = hardware::Disturbances();
  const double share = hardware::OthersShare(1);
  for (auto& one : MeasuredDisturbances(share, Read(device))) found.push_back(std::move(one));
  for (auto& one : GpuDisturbances(device)) found.push_back(std::move(one));
  return absl::StrCat(device.name(), "\n", Report(found));
}

}  // namespace roofbench
