// SPDX-License-Identifier: Apache-2.0
#include "lib/device/metered_device.h"

namespace roofbench {

using workload::Dtype;

hardware::RoofNeeds MeteredDevice::AddGemmProbes(hardware::RoofNeeds needs) {
  for (const Dtype dtype : workload::kDtypes) {
    const std::size_t i = workload::Index(dtype);
    needs.dtypes[i] = needs.dtypes[i] && Supports(dtype).ok();
    if (!needs.dtypes[i] || meter().peaks().flops_per_second[i] > 0) continue;
    for (auto& [name, probe] : GemmProbes(dtype)) meter().AddComputeProbe(dtype, name, std::move(probe));
  }
  return needs;
}

void MeteredDevice::Calibrate(const hardware::RoofNeeds& needs) {
  meter().Calibrate(AddGemmProbes(needs), calibration_seconds_);
}

void MeteredDevice::RestoreRoofs(const std::vector<hardware::RoofReading>& readings) {
  AddGemmProbes(hardware::NeedsOf(readings));
  meter().Restore(readings);
}

}  // namespace roofbench
