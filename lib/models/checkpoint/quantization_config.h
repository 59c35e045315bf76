// SPDX-License-Identifier: Apache-2.0
// quantization_config of a config.json: how the linear layers of a checkpoint are stored in 4 bits.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace roofbench::models {

// A weight is (code - zero) · scale, with a zero and a scale for each group of columns of a row. All layers of a
// decoder are stored so but the embedding, the head, the norms, biases and routers.
struct PackedFormat {
  // What lies in a word of 32 bits: GPTQ's has the codes of 8 columns, AWQ's those of 8 rows in an order of its own.
  enum class Packing { kGptq, kAwq };

  Packing packing = Packing::kGptq;
  int64_t group = 128;                // columns; 0: a row is one group
  int64_t added_to_zeros = 0;         // GPTQ's first format stores zeros less 1
  bool orders_by_activation = false;  // desc_act: the columns of a group may lie anywhere, which g_idx says

  int64_t GroupOf(int64_t columns) const { return group == 0 ? columns : group; }
  const char* Name() const { return packing == Packing::kGptq ? "gptq" : "awq"; }
};

// InvalidArgument names the key that is wrong, Unimplemented the one whose value, or whose meaning, is not known.
absl::StatusOr<PackedFormat> ParseQuantizationConfig(const nlohmann::json& quantization);

}  // namespace roofbench::models
