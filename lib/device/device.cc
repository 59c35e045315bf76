// SPDX-License-Identifier: Apache-2.0
#include "lib/device/device.h"

#include <functional>
#include <utility>

namespace roofbench {

hardware::ConditionsWatch WatchConditions(Device& device, std::function<double()> other_cpu) {
  return hardware::ConditionsWatch({.clock = device.clock(),
                                    .read = [&device] { return device.ReadConditions(); },
                                    .processors = device.processors(),
                                    .is_momentary = device.ConditionsAreMomentary(),
                                    .other_cpu = std::move(other_cpu),
                                    .handover = [&device] { return device.HandoverSeconds(); }});
}

}  // namespace roofbench
