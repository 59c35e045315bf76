// What the families of token generation share: their axes, their models, and what they record.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/harness/device.h"
#include "lib/harness/family.h"
#include "lib/models/decoder.h"
#include "lib/models/token_choice.h"
#include "lib/workload/decoder.h"

namespace roofbench {

// impl, model, precision, group, head, outliers and batch: the axes of every family with a model to choose, in this
// order.
Family LanguageModelFamily(std::string name, std::string doc);

// Adds precision, group, head and outliers: how weights are stored.
Family WithStorageAxes(Family family);

// What the point's model is: of --checkpoint, or why it is not there.
absl::StatusOr<models::DecoderConfig> ConfigAt(const Point& at);

// Whether this device can run the point: of --checkpoint, whether it was given.
absl::Status LanguageModelSupports(const Point& at, const Device& device);

// The closed forms of the point's model. For model:checkpoint those of --checkpoint.
workload::StoredDecoder StoredAt(const Point& at);

// Weights in the point's format, on the device: random, or those of --checkpoint.
struct LoadedModel {
  models::DecoderWeights weights;
  double load_seconds = 0;
  double unseen_bytes = 0;  // see SharedOperands
};
absl::StatusOr<std::shared_ptr<const LoadedModel>> ModelAt(const Point& at, const Device& device);

// A decoder of the point's implementation with a cache for `capacity` tokens a sequence.
absl::StatusOr<std::shared_ptr<models::Decoder>> DecoderAt(const Point& at, const LoadedModel& model, int64_t capacity,
                                                           const Device& device);

// The logits after `tokens` [batch, n] in fp32 arithmetic on the weights that the format stands for.
at::Tensor ExactLogits(const LoadedModel& model, const at::Tensor& tokens);

// What logits may be off by.
Tolerance LogitTolerance(const LoadedModel& model);

// Facts and figures of every case with a model.
void DescribeModel(const LoadedModel& model, Case& built);

}  // namespace roofbench
