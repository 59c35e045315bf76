// SPDX-License-Identifier: Apache-2.0
// The logits of our decoder for a checkpoint, for Python tests to compare with transformers:
//   decoder_logits FOLDER SEQUENCES OUT IMPL:PRECISION:PROMPT…
// SEQUENCES is "1,2,3;4,5,6": token ids of sequences of one length. Each run reads the first PROMPT at once and the
// others one by one, and adds the logits after each to OUT, fp32 [1 + length - PROMPT, batch, vocab].
// PRECISION/fp16: with activations in fp16.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/models/checkpoint/checkpoint.h"
#include "lib/models/decoding/decoder_model.h"
#include "lib/models/make_decoder.h"

namespace roofbench::models {
namespace {

[[noreturn]] void Stop(const std::string& why) {
  std::fprintf(stderr, "decoder_logits: %s\n", why.c_str());
  std::exit(EXIT_FAILURE);
}

at::Tensor ParseSequences(const std::string& text) {
  const std::vector<std::string> sequences = absl::StrSplit(text, ';');
  std::vector<int64_t> ids;
  for (const std::string& sequence : sequences) {
    for (const auto& id : absl::StrSplit(sequence, ',')) {
      if (!absl::SimpleAtoi(id, &ids.emplace_back())) Stop(absl::StrCat("not a token id: ", id));
    }
  }
  const auto batch = static_cast<int64_t>(sequences.size());
  at::Tensor tokens = at::empty({batch, static_cast<int64_t>(ids.size()) / batch}, at::kLong);
  std::copy(ids.begin(), ids.end(), tokens.data_ptr<int64_t>());
  return tokens;
}

void Run(const Checkpoint& checkpoint, const at::Tensor& tokens, const std::string& run, std::ofstream& out) {
  const std::vector<std::string> parts = absl::StrSplit(run, ':');
  int64_t prompt = 0;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[2], &prompt)) Stop(absl::StrCat("not IMPL:PRECISION:PROMPT: ", run));
  const auto format = workload::ParseWeightFormat(parts[1].substr(0, parts[1].find('/')));
  if (!format) Stop(absl::StrCat("unknown precision: ", run));
  Storage storage = DefaultStorage(checkpoint.config(), *format);
  if (absl::EndsWith(parts[1], "/fp16")) storage.activations = workload::Activations::kFp16;
  storage.group = 32;
  const auto weights = LoadWeights(checkpoint, storage);
  if (!weights.ok()) Stop(std::string(weights.status().message()));
  const auto decoder = MakeDecoder(parts[0], *weights, {.batch = tokens.size(0), .capacity = tokens.size(1)}, 2);
  if (!decoder.ok()) Stop(std::string(decoder.status().message()));
  const auto write = [&](const at::Tensor& result) {
    const at::Tensor logits = result.contiguous();
    out.write(reinterpret_cast<const char*>(logits.data_ptr()), static_cast<std::streamsize>(logits.nbytes()));
  };
  write((*decoder)->Append(tokens.narrow(1, 0, prompt).contiguous()));
  for (int64_t i = prompt; i < tokens.size(1); ++i) write((*decoder)->AppendOne(tokens.select(1, i).contiguous()));
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.size() < 5) Stop("FOLDER SEQUENCES OUT IMPL:PRECISION:PROMPT…");
  const auto checkpoint = Checkpoint::Open(arguments[1]);
  if (!checkpoint.ok()) Stop(std::string(checkpoint.status().message()));
  const at::NoGradGuard no_grad;
  const at::Tensor tokens = ParseSequences(arguments[2]);
  std::ofstream out(arguments[3], std::ios::binary);
  for (auto run = arguments.begin() + 4; run != arguments.end(); ++run) Run(*checkpoint, tokens, *run, out);
  return out ? 0 : 1;
}

}  // namespace
}  // namespace roofbench::models

int main(int argc, char** argv) { return roofbench::models::Main({argv, argv + argc}); }
