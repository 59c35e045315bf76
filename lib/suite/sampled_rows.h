// SPDX-License-Identifier: Apache-2.0
// The rows that checks compare, where the whole result has no reference: a step can see which.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <random>

namespace roofbench {

// At most `most` distinct sorted row numbers below `rows`: all of them if there are no more. `generator` draws them.
at::Tensor SampleRowNumbers(int64_t rows, int64_t most, at::Generator& generator);

// Remembers that this tensor, as long as it exists, has such numbers below `rows`.
void KeepSampledRows(const at::Tensor& sampled, int64_t rows);

// Writes others into all of them: call it between a step and the check of its result, so that the step cannot have
// computed just those.
void DrawSampledRows(std::mt19937_64& random);

}  // namespace roofbench
