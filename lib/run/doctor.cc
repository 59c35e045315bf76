// SPDX-License-Identifier: Apache-2.0
#include "lib/run/doctor.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/text.h"
#include "lib/hardware/nvml.h"
#include "lib/hardware/quiet.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

using hardware::Disturbance;

constexpr double kLoud = 0.03;      // share of the processors that others may take
constexpr double kUnsteady = 1.15;  // fastest over slowest tenth of the readings of memory
constexpr int kReadings = 40;
constexpr std::chrono::milliseconds kPause(230);
constexpr double kReadingSeconds = 0.02;

std::vector<double> MemoryRates(Device& device) {
  // A stream much larger than any cache, as the memory roof has it.
  workload::Operation stream{.bytes_read = 1e9};
  const RoofGauge gauge = device.Gauge({.operations = {stream}, .resident_bytes = 1e9}, CacheState::kCold);
  std::vector<double> rates;
  for (int i = 0; gauge.probe && i < kReadings; ++i) {
    rates.push_back(gauge.probe(kReadingSeconds));
    std::this_thread::sleep_for(kPause);
  }
  std::erase_if(rates, [](double rate) { return rate <= 0; });
  return rates;
}

}  // namespace

std::vector<Disturbance> MeasuredDisturbances(double others_share, const std::vector<double>& rates) {
  std::vector<Disturbance> found = {
      {"other_load", absl::StrFormat("%.1f %%", 100 * others_share),
       others_share > kLoud ? "other programs use the processors: end them (top shows them), or --wait_quiet=600"
                            : ""}};
  if (rates.empty()) return found;
  const double slow = timing::Quantile(rates, 0.1);
  const double fast = timing::Quantile(rates, 0.9);
  found.push_back({"memory_speed",
                   absl::StrCat(HumanRate(slow, "B/s"), " to ", HumanRate(fast, "B/s"), " over ten seconds"),
                   slow * kUnsteady < fast ? "memory is now slow, now fast, as others on this host use it: compare by "
                                             "roof and not by time (tools/report abba --metric=roof)"
                                           : ""});
  return found;
}

std::vector<Disturbance> GpuDisturbances(const Device& device) {
  if (device.SharesHostMemory()) return {};
  std::map<std::string, std::string> facts;
  for (const auto& [key, value] : device.Context()) facts[key] = value;
  std::string why;
  const std::unique_ptr<hardware::Nvml> nvml = hardware::Nvml::Open(facts["gpu_pci_bus_id"], &why);
  if (nvml == nullptr) return {{"gpu_driver", absl::StrCat("does not tell: ", why)}};
  std::vector<Disturbance> found;
  const auto persistent = nvml->IsPersistent();
  found.push_back({"gpu_persistence",
                   !persistent   ? "unknown"
                   : *persistent ? "on"
                                 : "off",
                   persistent && !*persistent ? "nvidia-smi -pm 1 (root): the first step waits for the driver" : ""});
  const hardware::NvmlReading reading = nvml->Read();
  if (const auto most = nvml->MaxSmHertz(); most && reading.sm_hertz) {
    found.push_back({"gpu_clock", absl::StrFormat("%.0f of %.0f MHz", *reading.sm_hertz / 1e6, *most / 1e6)});
  }
  const uint64_t reasons = reading.reasons.value_or(0);
  found.push_back({"gpu_clock_reasons", reading.reasons ? hardware::DescribeReasons(reasons) : "unknown",
                   IsThermal(reading)       ? "it is too hot: wait, or cool it"
                   : IsPowerCapped(reading) ? "it is at its power limit: lock a clock below it, nvidia-smi -lgc (root)"
                                            : ""});
  return found;
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
  device.Calibrate({});
  for (auto& one : MeasuredDisturbances(share, MemoryRates(device))) found.push_back(std::move(one));
  for (auto& one : GpuDisturbances(device)) found.push_back(std::move(one));
  return absl::StrCat(device.name(), "\n", Report(found));
}

}  // namespace roofbench
