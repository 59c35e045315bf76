// SPDX-License-Identifier: Apache-2.0
#include "lib/device/conditions/energy_clock.h"

#include <memory>

#include "lib/hardware/energy.h"

namespace roofbench {

JoulesRead JoulesOf(const Device& device, const EnergySources& sources) {
  if (device.SharesHostMemory()) {
    return [counter = std::make_shared<hardware::EnergyCounter>(sources.root)] { return counter->Joules(); };
  }
  for (const auto& [key, value] : device.Context()) {
    if (key != "gpu_pci_bus_id") continue;
    std::string why;
    const std::shared_ptr<hardware::Nvml> nvml = hardware::Nvml::Open(value, &why, sources.nvml);
    if (nvml != nullptr) return [nvml] { return nvml->Joules(); };
  }
  return nullptr;
}

void EnergyClock::BeginChunk(std::size_t marks) {
  before_ = Read();
  Wrapped().BeginChunk(marks);
}

std::span<const double> EnergyClock::EndChunk() {
  const std::span<const double> marks = Wrapped().EndChunk();
  const std::optional<double> after = Read();
  if (joules_used_ && before_ && after) {
    *joules_used_ += *after - *before_;
  } else {
    joules_used_ = std::nullopt;
  }
  if (!marks.empty()) seconds_ += marks.back() - marks.front();
  return marks;
}

std::optional<double> EnergyClock::Watts() const {
  if (!joules_used_ || seconds_ < least_seconds_ || *joules_used_ <= 0) return std::nullopt;
  return *joules_used_ / seconds_;
}

}  // namespace roofbench
