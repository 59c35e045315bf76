// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/decoder_model.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/models/decoding/eager_decoder.h"

namespace roofbench::models {

absl::StatusOr<std::unique_ptr<DecoderModel>> MakeDecoder(std::string_view implementation,
                                                          const DecoderWeights& weights, const DecoderRoom& room,
                                                          int threads) {
  if (implementation == "eager") return std::make_unique<EagerDecoder>(weights, room.batch, room.capacity);
  if (implementation == "native") return MakeNativeDecoder(weights, room, threads);
  return absl::InvalidArgumentError(absl::StrCat("no decoder is called ", std::string(implementation)));
}

}  // namespace roofbench::models
