// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/macro/given.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "lib/base/program_name.h"
#include "lib/gbench/flag_check.h"

ABSL_FLAG(std::string, checkpoint, "",
          "folder of a Hugging Face checkpoint (Llama, Mistral, Mixtral, Qwen2, Qwen3, Gemma 2), for the cases of "
          "model:checkpoint and complete");
ABSL_FLAG(
    std::string, draft_checkpoint, "",
    "folder of a checkpoint with the same tokens, which guesses for `complete` in the precision of its axis draft "
    "(by default that of --checkpoint)");
ABSL_FLAG(double, temperature, 1, "sampling:given: logits are divided by it, above 1 for more varied text");
ABSL_FLAG(int64_t, top_k, 0, "sampling:given: draw one of so many most likely tokens (0: of all)");
ABSL_FLAG(double, top_p, 1,
          "sampling:given: draw one of the fewest most likely tokens that have this probability together (1: of all)");
ABSL_FLAG(double, min_p, 0,
          "sampling:given: draw one of the tokens with at least this share of the most likely one's probability (0: of "
          "all)");
ABSL_FLAG(double, repetition_penalty, 1,
          "sampling:given: above 1 makes tokens that prompt or text have less likely (1: as likely as they are)");
ABSL_FLAG(uint64_t, sampling_seed, 0, "sampling:given: seed of what is drawn; the same text each time");

namespace roofbench {
namespace {

using workload::WeightFormat;

WeightFormat StoredFormat(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return WeightFormat::kBf16;
    case at::kHalf:
      return WeightFormat::kFp16;
    default:
      return WeightFormat::kFp32;
  }
}

// Before anything is measured: a folder without a checkpoint is a command line error.
absl::Status CheckFolder(const char* flag, const std::string& folder,
                         const absl::StatusOr<models::Checkpoint>& (*given)()) {
  if (folder.empty()) return absl::OkStatus();
  const std::string name = absl::StrCat(flag, "=", folder);
  if (!given().ok()) return absl::Status(given().status().code(), absl::StrCat(name, ": ", given().status().message()));
  for (const std::string& note : given()->notes()) std::cerr << ProgramName() << ": " << name << ": " << note << '\n';
  return absl::OkStatus();
}

const FlagCheck kCheckpointFlag([] {
  return CheckFolder("--checkpoint", absl::GetFlag(FLAGS_checkpoint), GivenCheckpoint);
});
const FlagUse kCheckpointUse(
    {"checkpoint"},
    [](const Point& at) {
      const bool has_no_other = at.family() == "complete" || at.family() == "quality";
      return has_no_other || (at.Has("model") && at.Text("model") == kCheckpointModel);
    },
    "complete and quality read it, and others with --axis=model=checkpoint");
const FlagCheck kDraftFlag([] {
  return CheckFolder("--draft_checkpoint", absl::GetFlag(FLAGS_draft_checkpoint), GivenDraft);
});

}  // namespace

const absl::StatusOr<models::Checkpoint>& GivenCheckpoint() {
  static const auto* checkpoint = [] {
    const std::string folder = absl::GetFlag(FLAGS_checkpoint);
    if (!folder.empty()) return new absl::StatusOr<models::Checkpoint>(models::Checkpoint::Open(folder));
    return new absl::StatusOr<models::Checkpoint>(
        absl::UnimplementedError("a checkpoint needs the flag --checkpoint=FOLDER"));
  }();
  return *checkpoint;
}

const absl::StatusOr<models::Checkpoint>& GivenDraft() {
  static const auto* draft = [] {
    const std::string folder = absl::GetFlag(FLAGS_draft_checkpoint);
    if (folder.empty()) return &GivenCheckpoint();
    return static_cast<const absl::StatusOr<models::Checkpoint>*>(
        new absl::StatusOr<models::Checkpoint>(models::Checkpoint::Open(folder)));
  }();
  return *draft;
}

const absl::StatusOr<models::Checkpoint>* GivenModel(std::string_view model) {
  if (model == kCheckpointModel) return &GivenCheckpoint();
  return model == kDraftModel ? &GivenDraft() : nullptr;
}

CheckpointReader::CheckpointReader(models::DecoderWeights weights, int64_t capacity)
    : weights_(std::move(weights)), decoder_(weights_, 1, capacity, models::Arithmetic::kExact) {}

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(int64_t capacity, const Device& device) {
  const absl::StatusOr<models::Checkpoint>& given = GivenCheckpoint();
  if (!given.ok()) return given.status();
  absl::StatusOr<models::DecoderWeights> weights =
      models::LoadWeights(*given, models::Storage::Default(StoredFormat(given->StoredType())));
  if (!weights.ok()) return weights.status();
  if (absl::Status moved = weights->MoveTo(device.torch_device()); !moved.ok()) return moved;
  return std::unique_ptr<CheckpointReader>(new CheckpointReader(*std::move(weights), capacity));
}

at::Tensor CheckpointReader::Read(const at::Tensor& tokens) {
  const at::NoGradGuard no_grad;
  return decoder_.AppendAll(tokens.unsqueeze(0).contiguous())[0].to(at::kCPU);
}

GivenIds::GivenIds(std::string name, std::function<std::string()> value, Reader read)
    : name_(std::move(name)), value_(std::move(value)), read_(std::move(read)) {}

const absl::StatusOr<GivenIds::Lists>& GivenIds::Get() {
  if (!lists_) lists_ = Read();
  return *lists_;
}

absl::StatusOr<GivenIds::Lists> GivenIds::Read() const {
  const std::string given = value_();
  if (!given.empty()) return read_(name_, given);
  return absl::UnimplementedError(
      absl::StrCat("needs --checkpoint=FOLDER and ", name_, ", which tools/tokens makes from a text"));
}

absl::Status GivenIds::Check() {
  if (value_().empty()) return absl::OkStatus();
  const absl::StatusOr<Lists>& lists = Get();
  if (!lists.ok()) return lists.status();
  if (!GivenCheckpoint().ok()) return absl::OkStatus();  // its own flag is checked, too
  const auto vocab = static_cast<int64_t>(GivenCheckpoint()->config().shape.base.vocab);
  int64_t largest = 0;
  for (const models::TokenIds& ids : *lists) largest = std::max(largest, *std::ranges::max_element(ids));
  if (largest < vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name_, ": ", largest, " is no token of the checkpoint, which has ", vocab));
}

namespace {

models::SamplingOptions FromFlags() {
  return {.temperature = absl::GetFlag(FLAGS_temperature),
          .top_k = absl::GetFlag(FLAGS_top_k),
          .top_p = absl::GetFlag(FLAGS_top_p),
          .min_p = absl::GetFlag(FLAGS_min_p),
          .repetition_penalty = absl::GetFlag(FLAGS_repetition_penalty),
          .seed = absl::GetFlag(FLAGS_sampling_seed)};
}

constexpr char kGiven[] = "given";

// Before anything is measured.
const FlagCheck kSampling([] { return models::CheckSampling(FromFlags()); });
const FlagUse kSamplingUse(
    {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "sampling_seed"},
    [](const Point& at) { return at.Has("sampling") && at.Text("sampling") == kGiven; },
    "generate and complete draw by it with --axis=sampling=given");

}  // namespace

std::optional<models::SamplingOptions> SamplingOf(std::string_view sampling) {
  return sampling == kGiven ? std::optional(FromFlags()) : std::nullopt;
}

}  // namespace roofbench
