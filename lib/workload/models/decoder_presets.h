// SPDX-License-Identifier: Apache-2.0
// The language models that cases are named after.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/workload/models/decoder.h"

namespace roofbench::workload {

struct DecoderPreset {
  std::string_view name;
  Decoder shape;
  double rope_theta = 10000;
  bool llama3_rope = false;  // Llama 3.1's stretched positions (factor 8 or 32, from 8192)
  double rope_factor = 8;
  std::string_view doc;
};

// Real models with their published sizes; their cuts, which say so in their names and keep the ratio of layers to
// vocabulary, so that a token spends the same shares of its time in the same places; and tiny ones for tests.
std::span<const DecoderPreset> DecoderPresets();

// nullptr for any other name.
const DecoderPreset* FindDecoderPreset(std::string_view name);

}  // namespace roofbench::workload
