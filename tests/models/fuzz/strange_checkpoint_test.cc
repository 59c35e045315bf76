// SPDX-License-Identifier: Apache-2.0
// Every checkpoint is refused with a reason, or computes a result: it must not crash, nor read or write outside of its
// memory. At length, best with the preset asan:
//
//   ROOFBENCH_FUZZ_ROUNDS=20000 build/asan/bin/models_test --gtest_filter='StrangeCheckpoint.*' 2>&1 | tail
//
// ROOFBENCH_FUZZ_FIRST=n begins with round n, of which the last line names the one that ended the process.

#include "tests/models/fuzz/strange_checkpoint.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lib/models/checkpoint/checkpoint.h"
#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/generation/generation.h"

namespace roofbench::models {
namespace {

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

at::Tensor Prompt(Dice& dice, int64_t batch, int64_t vocab) {
  at::Tensor prompt = at::empty({batch, 1 + static_cast<int64_t>(dice.Below(6))}, at::kLong);
  for (int64_t i = 0; i < prompt.numel(); ++i) {
    prompt.data_ptr<int64_t>()[i] = static_cast<int64_t>(dice.Below(static_cast<std::size_t>(vocab)));
  }
  return prompt;
}

// Runs one case of generation. Returns its outcome.
std::string Generate(const DecoderWeights& weights, const std::string& implementation, Dice& dice) {
  const auto vocab = static_cast<int64_t>(weights.config.shape.base.vocab);
  const int64_t batch = dice.Of<int64_t>({1, 1, 2, 3});
  constexpr int64_t kNew = 3;
  const at::Tensor prompt = Prompt(dice, batch, vocab);
  auto decoder =
      MakeDecoder(implementation, weights, {.batch = batch, .capacity = prompt.size(1) + kNew}, /*threads=*/2);
  if (!decoder.ok()) return "no decoder";
  Generation generation(*std::move(decoder), vocab,
                        {.prompt = prompt,
                         .most_new = kNew,
                         .stop_ids = weights.config.stop_ids,
                         .choice = {.top_k = dice.Of<int64_t>({1, 200}), .temperature = 0.8, .seed = 1}});
  generation.Run([] {});
  for (int64_t b = 0; b < batch; ++b) {
    for (const int64_t id : generation.Ids(b)) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, vocab);
    }
  }
  for (const at::Tensor& read : generation.Read()) {
    EagerDecoder exact(weights, read.size(0), read.size(1), Arithmetic::kExact);
    exact.Append(read);
  }
  return "tokens";
}

std::string Try(uint64_t seed) {
  StrangeCheckpoint strange(seed);
  Dice& dice = strange.dice();
  const TemporaryFolder folder;
  strange.WriteTo(folder);
  const auto checkpoint = Checkpoint::Open(folder.path());
  if (!checkpoint.ok()) {
    EXPECT_FALSE(checkpoint.status().message().empty());
    return "refused";
  }
  if (dice.OneIn(16)) {
    const std::string path = folder.path() + "/model.safetensors";
    std::filesystem::resize_file(path, dice.Below(std::filesystem::file_size(path)));
  }
  const std::vector<workload::WeightFormat> formats(std::begin(workload::kWeightFormats),
                                                    std::end(workload::kWeightFormats));
  Storage storage = DefaultStorage(checkpoint->config(), dice.Of(formats));
  storage.group = dice.OneIn(8) ? 64 : 32;
  if (dice.OneIn(3)) storage.skipped.insert(kLinearRoles[dice.Below(kLinearRoles.size())]);
  if (dice.OneIn(3)) storage.outlier_threshold = 0;
  storage.int8_cache = dice.OneIn(3);
  const auto weights = LoadWeights(*checkpoint, storage);
  if (!weights.ok()) return absl::IsUnimplemented(weights.status()) ? "format does not fit" : "not loaded";
  const at::NoGradGuard no_grad;
  std::string came;
  for (const char* implementation : {"eager", "native"}) {
    try {
      came = Generate(*weights, implementation, dice);
    } catch (const std::exception&) {
      came = "failed";  // as a case does
    }
  }
  return came;
}

TEST(StrangeCheckpoint, IsRefusedOrComputes) {
  const bool by_hand = std::getenv("ROOFBENCH_FUZZ_ROUNDS") != nullptr;
  const int64_t first = FromEnvironment("ROOFBENCH_FUZZ_FIRST", 0);
  const int64_t rounds = FromEnvironment("ROOFBENCH_FUZZ_ROUNDS", 200);
  std::map<std::string, int64_t> came;
  for (int64_t round = first; round < first + rounds; ++round) {
    if (by_hand) std::fprintf(stderr, "round %lld\n", static_cast<long long>(round));
    ++came[Try(static_cast<uint64_t>(round))];
  }
  for (const auto& [what, count] : came) {
    std::printf("%s: %lld\n", what.c_str(), static_cast<long long>(count));
    RecordProperty(what, std::to_string(count));
  }
  // Many attempts must reach the arithmetic; otherwise they test only the parser.
  if (rounds >= 100) {
    EXPECT_GT(came["tokens"] + came["failed"], rounds / 5);
  }
}

}  // namespace
}  // namespace roofbench::models
