// SPDX-License-Identifier: Apache-2.0
// Random weights, as fast as memory takes them: billions in seconds.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace roofbench::models {

// Fills a contiguous tensor with normal values: of `deviation` in floating point; in int8 of deviation 32, clamped to
// ±127; in bytes (uint8) with uniform bits. What a seed gives does not depend on the number of threads.
void FillRandom(const at::Tensor& tensor, uint64_t seed, double deviation);

}  // namespace roofbench::models
