// SPDX-License-Identifier: Apache-2.0
// The checkpoint of --checkpoint, and its model as the measure of what precisions change; and that of
// --draft_checkpoint.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "lib/models/checkpoint/checkpoint.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/suite/family_of.h"

namespace roofbench {

// The value of the axis model that stands for it, and what stands for a draft's model, which is no value of the axis.
inline constexpr char kCheckpointModel[] = "checkpoint";
inline constexpr char kDraftModel[] = "draft";

// Opened once: its headers say what the cases of model:checkpoint are. Unimplemented without the flag.
const absl::StatusOr<models::Checkpoint>& GivenCheckpoint();
// The same of --draft_checkpoint, or, without that flag, of --checkpoint.
const absl::StatusOr<models::Checkpoint>& GivenDraft();
// That of these which `model` stands for; nullptr: it stands for none.
const absl::StatusOr<models::Checkpoint>* GivenModel(std::string_view model);

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
