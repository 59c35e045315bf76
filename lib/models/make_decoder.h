// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/models/block/forward_hooks.h"
#include "lib/models/decoding/compiled_decoder.h"
#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/eager_decoder.h"

namespace roofbench::models {

// What some implementations need of the caller.
struct DecoderTools {
  RecordedDecoder::Record record = {};         // of "graph"
  CompiledDecoder::Compile compile = {};       // of "compiled"
  std::vector<int64_t> compiled_lengths = {};  // CompiledDecoder::CompileFor's
};

// A decoder by the name of its implementation: "eager" (LibTorch's operations), "native" (MakeNativeDecoder without a
// choice) and "fastest" (with room.choice), which use `threads`, "graph" or "compiled". Ranks, which have parts of a
// model and hooks, take the first two. The weights and the hooks must outlive it. Unimplemented if it cannot run such
// weights here, InvalidArgument for another name.
absl::StatusOr<std::unique_ptr<DecoderModel>> MakeDecoder(std::string_view implementation,
                                                          const DecoderWeights& weights, const DecoderRoom& room,
                                                          int threads, ForwardHooks& hooks = NoHooks(),
                                                          const DecoderTools& tools = {});

}  // namespace roofbench::models
