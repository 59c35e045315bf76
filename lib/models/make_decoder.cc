// SPDX-License-Identifier: Apache-2.0
#include "lib/models/make_decoder.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/models/native/native_decoder.h"

namespace roofbench::models {

absl::StatusOr<std::unique_ptr<DecoderModel>> MakeDecoder(std::string_view implementation,
                                                          const DecoderWeights& weights, const DecoderRoom& room,
                                                          int threads, ForwardHooks& hooks, const DecoderTools& tools) {
  if (implementation == "native" || implementation == "fastest") {
    DecoderRoom of_own = room;
    if (implementation == "native") of_own.choice = nullptr;
    return MakeNativeDecoder(weights, of_own, threads, hooks);
  }
  if (implementation == "eager") {
    auto decoder = std::make_unique<EagerDecoder>(weights, room.batch, room.capacity);
    decoder->SumBy(hooks);
    return decoder;
  }
  if (implementation == "graph") {
    return std::make_unique<RecordedDecoder>(weights, room.batch, room.capacity, tools.record);
  }
  if (implementation == "compiled") {
    auto decoder = std::make_unique<CompiledDecoder>(weights, room.batch, room.capacity);
    for (const int64_t tokens : tools.compiled_lengths) {
      if (absl::Status status = decoder->CompileFor(tokens, tools.compile); !status.ok()) return status;
    }
    return decoder;
  }
  return absl::InvalidArgumentError(absl::StrCat("no decoder is called ", std::string(implementation)));
}

}  // namespace roofbench::models
