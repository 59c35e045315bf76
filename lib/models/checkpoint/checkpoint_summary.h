// SPDX-License-Identifier: Apache-2.0
// A summary of a checkpoint, with its memory and speed in each precision, without reading weights: from its
// configuration, the headers of its files, and the closed forms of the decoder's costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/models/checkpoint/checkpoint.h"
#include "lib/workload/models/decoder.h"
#include "lib/workload/roofline.h"
#include "nlohmann/json_fwd.hpp"

namespace roofbench::models {

// Tensors whose names differ only in the numbers of layers and experts, which are written as *.
struct TensorGroup {
  std::string name = {};  // "model.layers.*.self_attn.q_proj.weight"
  std::vector<int64_t> shape = {};
  at::ScalarType type = at::kFloat;
  int64_t count = 0;
  double parameters = 0;  // of all of them
  double bytes = 0;       // in the files
};

// The model in one precision, one sequence.
struct PrecisionSummary {
  workload::WeightFormat format = workload::WeightFormat::kFp32;
  absl::Status fits = {};  // why the format, or the device, does not support the model's matrices
  double weight_bytes = 0;
  double kv_bytes_per_token = 0;
  double resident_bytes = 0;  // with a prompt of `context` tokens, read at once
  // The roof's limit for the first token, and after `context` tokens; nullopt if the roof is unknown.
  std::optional<double> first_tokens_per_second = {};
  std::optional<double> last_tokens_per_second = {};
};

struct CheckpointSummary {
  std::vector<TensorGroup> tensors = {};
  std::size_t unused_tensors = 0;
  DecoderConfig config = {};
  at::ScalarType stored_type = at::kFloat;
  double stored_bytes = 0;
  double parameters = 0;
  double active_parameters = 0;  // see workload::Decoder
  double context = 0;            // tokens
  std::vector<PrecisionSummary> precisions = {};
  double int8_kv_bytes_per_token = 0;    // of keys and values in 8 bits, for any weights
  std::optional<double> read_roof = {};  // bytes per second; nullopt if unknown
};

// `peaks`: 0 if unknown. The context is 2,048 tokens, or the model's limit, if that is less.
CheckpointSummary Summarize(const Checkpoint& checkpoint, const workload::Peaks& peaks);

// A text for users: the tree of tensors, sizes, and a table of precisions.
std::string SummaryText(const CheckpointSummary& summary);
// "read 33.4 GB/s", the roof of a token.
std::string ReadRoofText(const CheckpointSummary& summary);
// JSON for programs: the fields above and those of the shape, by their names.
nlohmann::ordered_json SummaryJson(const CheckpointSummary& summary);

}  // namespace roofbench::models
