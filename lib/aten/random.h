// SPDX-License-Identifier: Apache-2.0
// Random numbers on any device.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace roofbench {

// For operations on tensors of the device. The numbers depend on the seed and on the kind of the device.
inline at::Generator NewGenerator(at::Device device, uint64_t seed) {
  if (device.is_cpu()) return at::detail::createCPUGenerator(seed);
  at::Generator made = at::globalContext().getAcceleratorHooksInterface(device.type()).getNewGenerator(device.index());
  made.set_current_seed(seed);
  return made;
}

// Fills a contiguous tensor with normal values: floating point with `deviation`; int8 and fp8 with a deviation of 32,
// int8 clamped to ±127. uint8 gets uniform bits. The values depend on the seed, not on the number of threads. Billions
// take seconds.
void FillRandom(const at::Tensor& tensor, uint64_t seed, double deviation);

}  // namespace roofbench
