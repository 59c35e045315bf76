// SPDX-License-Identifier: Apache-2.0
// The logits of our decoder for a checkpoint, for Python tests to compare with transformers:
//   decoder_logits FOLDER IMPL PRECISION GROUP SEQUENCES PROMPT OUT
// SEQUENCES is "1,2,3;4,5,6": token ids of sequences of one length. The first PROMPT are read at once, the others one
// by one; OUT gets the logits after each, fp32 [1 + length - PROMPT, batch, vocab]. With "greedy=N" in place of OUT, N
// tokens are chosen one after another and printed, one line per sequence. PRECISION/fp16: with activations in fp16.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/empty.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/models/checkpoint/checkpoint.h"
#include "lib/models/decoding/decoder_model.h"

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

int Main(const std::vector<std::string>& arguments) {
  if (arguments.size() != 8) Stop("FOLDER IMPL PRECISION GROUP SEQUENCES PROMPT OUT");
  constexpr char kFp16[] = "/fp16";
  const bool is_fp16 = absl::EndsWith(arguments[3], kFp16);
  const auto format = workload::ParseWeightFormat(arguments[3].substr(0, arguments[3].find('/')));
  if (!format) Stop("no such precision");
  const auto checkpoint = Checkpoint::Open(arguments[1]);
  if (!checkpoint.ok()) Stop(std::string(checkpoint.status().message()));
  Storage storage = DefaultStorage(checkpoint->config(), *format);
  if (is_fp16) storage.activations = workload::Activations::kFp16;
  if (!absl::SimpleAtoi(arguments[4], &storage.group)) Stop("GROUP is no number");
  const auto weights = LoadWeights(*checkpoint, storage);
  if (!weights.ok()) Stop(std::string(weights.status().message()));

  const at::NoGradGuard no_grad;
  const at::Tensor tokens = ParseSequences(arguments[5]);
  int64_t prompt = 0;
  if (!absl::SimpleAtoi(arguments[6], &prompt)) Stop("PROMPT is no number");
  constexpr char kGreedy[] = "greedy=";
  int64_t greedy = 0;
  if (absl::StartsWith(arguments[7], kGreedy)) greedy = std::atoll(arguments[7].c_str() + sizeof(kGreedy) - 1);
  const int64_t batch = tokens.size(0);
  const auto decoder = MakeDecoder(arguments[2], *weights, {.batch = batch, .capacity = tokens.size(1) + greedy}, 2);
  if (!decoder.ok()) Stop(std::string(decoder.status().message()));

  std::vector<at::Tensor> logits = {(*decoder)->Append(tokens.narrow(1, 0, prompt).contiguous()).clone()};
  for (int64_t i = prompt; i < tokens.size(1); ++i) {
    const at::Tensor next = tokens.select(1, i).contiguous();
    logits.push_back((*decoder)->AppendOne(next).clone());
  }
  if (greedy == 0) {
    std::ofstream out(arguments[7], std::ios::binary);
    for (const at::Tensor& step : logits) {
      out.write(reinterpret_cast<const char*>(step.data_ptr()), static_cast<std::streamsize>(step.nbytes()));
    }
    return out ? 0 : 1;
  }
  std::vector<std::string> chosen(static_cast<std::size_t>(batch));
  at::Tensor last = logits.back();
  for (int64_t i = 0; i < greedy; ++i) {
    const at::Tensor next = last.argmax(-1);
    for (int64_t b = 0; b < batch; ++b) {
      absl::StrAppend(&chosen[static_cast<std::size_t>(b)], i > 0 ? "," : "", next[b].item<int64_t>());
    }
    if (i + 1 < greedy) last = (*decoder)->AppendOne(next);
  }
  for (const std::string& line : chosen) std::cout << line << '\n';
  return 0;
}

}  // namespace
}  // namespace roofbench::models

int main(int argc, char** argv) { return roofbench::models::Main({argv, argv + argc}); }
