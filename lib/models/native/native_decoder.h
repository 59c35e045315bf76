// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "lib/models/block/forward_hooks.h"
#include "lib/models/decoding/decoder_model.h"

namespace roofbench::models {

// The decoder by our kernels, or by LibTorch's where room.choice finds those faster, for fp32 and bf16 vectors, on
// `threads` threads. Of a rank's part of a model, the hooks add up the terms of its two sums in each layer. The weights
// and the hooks must outlive it. Unimplemented, with the reason, for other formats and wider heads.
absl::StatusOr<std::unique_ptr<DecoderModel>> MakeNativeDecoder(const DecoderWeights& weights, const DecoderRoom& room,
                                                                int threads, ForwardHooks& hooks = NoHooks());

}  // namespace roofbench::models
