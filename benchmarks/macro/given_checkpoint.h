// SPDX-License-Identifier: Apache-2.0
// The checkpoint of --checkpoint, and its model as the measure of what precisions change.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "absl/status/statusor.h"
#include "lib/models/checkpoint/checkpoint.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/suite/family_of.h"

namespace roofbench {

// The value of the axis model that stands for it.
inline constexpr char kCheckpointModel[] = "checkpoint";

// Opened once: its headers say what the cases of model:checkpoint are. Unimplemented without the flag.
const absl::StatusOr<models::Checkpoint>& GivenCheckpoint();

// One sequence read by the model of --checkpoint, in fp32 arithmetic on the weights as they are stored.
class CheckpointReader {
 public:
  // Loads the weights; `capacity` tokens at most will be read.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(int64_t capacity, const Device& device);

  // The logits [n, vocab] on the host after each of `tokens` [n], which follow those before.
  at::Tensor Read(const at::Tensor& tokens);

 private:
  CheckpointReader(models::DecoderWeights weights, int64_t capacity);

  const models::DecoderWeights weights_;
  models::EagerDecoder decoder_;
};

}  // namespace roofbench
