// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/gpu_disturbances.h"

#include <cmath>
#include <optional>
#include <string>

namespace roofbench::hardware {
namespace {

constexpr char kUnknown[] = "unknown";

Disturbance Persistence(std::optional<bool> persistent) {
  if (!persistent) return {"gpu_persistence", kUnknown};
  if (*persistent) return {"gpu_persistence", "on"};
  return {"gpu_persistence", "off", "nvidia-smi -pm 1 (root): the first step waits for the driver"};
}

std::string Megahertz(double hertz) { return std::to_string(std::lround(hertz / 1e6)); }

Disturbance ClockReasons(const NvmlReading& reading) {
  const std::string remedy = IsThermal(reading) ? "it is too hot: wait, or cool it"
                             : IsPowerCapped(reading)
                                 ? "it is at its power limit: lock a clock below it, nvidia-smi -lgc (root)"
                                 : "";
  return {"gpu_clock_reasons", reading.reasons ? DescribeReasons(*reading.reasons) : kUnknown, remedy};
}

}  // namespace

std::vector<Disturbance> GpuDisturbances(const Nvml& nvml) {
  std::vector<Disturbance> found = {Persistence(nvml.IsPersistent())};
  const NvmlReading reading = nvml.Read();
  if (const auto most = nvml.MaxSmHertz(); most && reading.sm_hertz) {
    found.push_back({"gpu_clock", Megahertz(*reading.sm_hertz) + " of " + Megahertz(*most) + " MHz"});
  }
  found.push_back(ClockReasons(reading));
  return found;
}

}  // namespace roofbench::hardware
