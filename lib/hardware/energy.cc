// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/energy.h"

#include <filesystem>
#include <system_error>

namespace roofbench::hardware {
namespace {

constexpr double kMicro = 1e-6;

}  // namespace

EnergyCounter::EnergyCounter(const std::string& root) : tree_(root) {
  std::error_code error;
  const std::string folder = "/sys/class/powercap/";
  for (const auto& entry : std::filesystem::directory_iterator(root + folder, error)) {
    const std::string zone = entry.path().filename().string();
    const std::string path = folder + zone;
    // "intel-rapl:0" is a package (AMD's have the same name), "intel-rapl:0:1" a part of one; a package does not count
    // its memory. "psys" counts all of it again.
    if (zone.rfind("intel-rapl:", 0) != 0) continue;
    const std::string name = tree_.Word(path + "/name");
    if (name.rfind("package", 0) != 0 && name != "dram") continue;
    zones_.push_back({.path = path + "/energy_uj", .range = tree_.Number(path + "/max_energy_range_uj").value_or(0)});
  }
  for (Zone& zone : zones_) {
    const std::optional<double> now = tree_.Number(zone.path);
    if (!now) readable_ = false;
    zone.last = now.value_or(0);
  }
}

std::optional<double> EnergyCounter::Joules() {
  if (zones_.empty() || !readable_) return std::nullopt;
  double sum = 0;
  for (Zone& zone : zones_) {
    const std::optional<double> now = tree_.Number(zone.path);
    if (!now) return std::nullopt;
    if (*now < zone.last) zone.overflown += zone.range;
    zone.last = *now;
    sum += zone.overflown + *now;
  }
  return kMicro * sum;
}

}  // namespace roofbench::hardware
