// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/recorded_decoder.h"

namespace roofbench::models {

const at::Tensor& RecordedDecoder::AppendOne(const at::Tensor& tokens) {
  eager_.SetToken(tokens);
  if (!replay_) {
    replay_ = record_([this] { eager_.AppendSet(); });
    logits_ = eager_.CountSet();
  } else {
    eager_.CountSet();
  }
  replay_();
  return logits_;
}

}  // namespace roofbench::models
