// SPDX-License-Identifier: Apache-2.0
// The linear layers of a decoder, and how each is stored.
#pragma once

#include <array>
#include <optional>
#include <set>
#include <string_view>

#include "lib/workload/models/decoder.h"
#include "lib/workload/weight_format.h"

namespace roofbench::models {

// Products that read the same vector are one matrix: query, key and value; gate and up.
enum class LinearRole { kQkv, kOut, kRouter, kGateUp, kDown, kHead };

inline constexpr std::array<LinearRole, 6> kLinearRoles = {LinearRole::kQkv,    LinearRole::kOut,  LinearRole::kRouter,
                                                           LinearRole::kGateUp, LinearRole::kDown, LinearRole::kHead};

// "qkv_proj", "o_proj", "router", "gate_up_proj", "down_proj", "lm_head".
std::string_view Name(LinearRole role);
std::optional<LinearRole> ParseLinearRole(std::string_view name);

// How a model's weights, keys and values are stored.
struct Storage {
  workload::WeightFormat format = workload::WeightFormat::kBf16;
  int64_t group = 64;            // of int4
  double outlier_threshold = 6;  // of llm_int8; 0: no decomposition
  workload::Activations activations = workload::Activations::kDefault;
  bool int8_cache = false;            // keys and values in 8 bits: KvCache
  std::set<LinearRole> skipped = {};  // stay unquantised (llm_int8_skip_modules); the router always does

  // What upstream does: weight-only formats quantise the head, LLM.int8() leaves it.
  static Storage Default(workload::WeightFormat format);

  // The table of what each linear becomes; and what is not quantised.
  workload::WeightFormat FormatOf(LinearRole role) const;
  workload::WeightFormat Unquantised() const { return workload::UnquantizedFormat(format, activations); }

  // The same for the closed forms of bytes and work, which know one format for all layers.
  workload::StoredDecoder Of(const workload::Decoder& shape) const;
};

}  // namespace roofbench::models
