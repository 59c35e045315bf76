// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/macro/given_checkpoint.h"

#include <ATen/core/grad_mode.h>

#include <iostream>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/macro/drafts.h"
#include "lib/base/process.h"
#include "lib/gbench/flags.h"

namespace roofbench {
namespace {

using workload::WeightFormat;

std::string checkpoint_folder;
std::string draft_folder;

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

// Before anything is measured: a folder that is no checkpoint is a mistake on the command line.
absl::Status CheckFolder(const char* flag, const std::string& folder,
                         const absl::StatusOr<models::Checkpoint>& (*given)()) {
  if (folder.empty()) return absl::OkStatus();
  const std::string name = absl::StrCat(flag, "=", folder);
  if (!given().ok()) return absl::Status(given().status().code(), absl::StrCat(name, ": ", given().status().message()));
  for (const std::string& note : given()->notes()) std::cerr << ProgramName() << ": " << name << ": " << note << '\n';
  return absl::OkStatus();
}

const FlagRegistration kCheckpointFlag(
    {.flags = {{"checkpoint", "FOLDER", Text(checkpoint_folder),
                "Hugging Face folder (Llama, Mistral, Mixtral, Qwen2, Qwen3, Gemma 2) for complete and others",
                kCommon}},
     .check = [] { return CheckFolder("--checkpoint", checkpoint_folder, GivenCheckpoint); },
     .reads =
         [](const Point& at) {
           const bool has_no_other = at.family() == "complete" || at.family() == "quality";
           return has_no_other || (at.Has("model") && at.Text("model") == kCheckpointModel);
         },
     .way_out = "complete and quality read it, and others with --axis=model=checkpoint"});
const FlagRegistration kDraftFlag(
    {.flags =
         {{"draft_checkpoint", "FOLDER", Text(draft_folder),
           "checkpoint with the same tokens that drafts for complete, in the precision of the axis draft (default: "
           "that of --checkpoint)"}},
     .check = [] { return CheckFolder("--draft_checkpoint", draft_folder, GivenDraft); },
     .reads = [](const Point& at) { return at.family() == "complete" && HasDraft(at); },
     .way_out = "--axis=complete.draft=PRECISION selects cases that read it"});

}  // namespace

const absl::StatusOr<models::Checkpoint>& GivenCheckpoint() {
  static const auto* checkpoint = [] {
    if (!checkpoint_folder.empty()) {
      return new absl::StatusOr<models::Checkpoint>(models::Checkpoint::Open(checkpoint_folder));
    }
    return new absl::StatusOr<models::Checkpoint>(
        absl::UnimplementedError("a checkpoint needs the flag --checkpoint=FOLDER"));
  }();
  return *checkpoint;
}

const absl::StatusOr<models::Checkpoint>& GivenDraft() {
  static const auto* draft = [] {
    if (draft_folder.empty()) return &GivenCheckpoint();
    return static_cast<const absl::StatusOr<models::Checkpoint>*>(
        new absl::StatusOr<models::Checkpoint>(models::Checkpoint::Open(draft_folder)));
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

}  // namespace roofbench
