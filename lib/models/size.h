// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace roofbench::models {

// LibTorch counts with signs, the standard library's containers without; n ≥ 0.
inline std::size_t Size(int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace roofbench::models
