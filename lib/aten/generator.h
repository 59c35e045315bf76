// SPDX-License-Identifier: Apache-2.0
// Generators of random numbers on any device.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include <cstdint>

namespace roofbench {

// For operations on tensors of the device. The numbers depend on the seed and on the kind of the device.
inline at::Generator NewGenerator(at::Device device, uint64_t seed) {
  if (device.is_cpu()) return at::detail::createCPUGenerator(seed);
  at::Generator made = at::globalContext().getAcceleratorHooksInterface(device.type()).getNewGenerator(device.index());
  made.set_current_seed(seed);
  return made;
}

}  // namespace roofbench
