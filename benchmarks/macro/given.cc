// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/macro/given.h"

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/process.h"
#include "lib/cli/flags.h"

namespace roofbench {
namespace {

std::string checkpoint_folder;
std::string draft_folder;

// Before anything is measured: a folder without a checkpoint is a command line error.
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
     .reads = [](const Point& at) { return at.family() == "complete" && at.Text("draft") != "none"; },
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

GivenIds::GivenIds(std::string name, const std::string& flag, Reader read)
    : name_(std::move(name)),
      flag_(flag),
      read_(std::move(read)),
      without_flag_(absl::UnimplementedError(
          absl::StrCat("needs --checkpoint=FOLDER and ", name_, ", which tools/tokens makes from a text"))) {}

const absl::StatusOr<GivenIds::Lists>& GivenIds::Get() {
  if (flag_.empty()) return without_flag_;
  if (!lists_) lists_.emplace(read_(name_, flag_));
  return *lists_;
}

absl::Status GivenIds::Check() {
  if (flag_.empty()) return absl::OkStatus();
  const absl::StatusOr<Lists>& lists = Get();
  if (!lists.ok()) return lists.status();
  if (!GivenCheckpoint().ok()) return absl::OkStatus();  // --checkpoint reports that itself
  const auto vocab = static_cast<int64_t>(GivenCheckpoint()->config().shape.base.vocab);
  int64_t largest = 0;
  for (const models::TokenIds& ids : *lists) largest = std::max(largest, *std::ranges::max_element(ids));
  if (largest < vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name_, ": ", largest, " is not a token of the checkpoint, which has ", vocab));
}

namespace {

models::SamplingOptions given_sampling;
constexpr char kGiven[] = "given";

const FlagRegistration kSamplingFlags(
    {.flags = {{"temperature", "NUMBER", Number(given_sampling.temperature),
                "sampling:given: divide logits by it; above 1 for more varied text"},
               {"top_k", "N", Whole<int64_t>(given_sampling.top_k, INT64_MIN, INT64_MAX),
                "sampling:given: draw from the N most likely tokens (0: from all)"},
               {"top_p", "SHARE", Number(given_sampling.top_p),
                "sampling:given: draw from the fewest most likely tokens with this total probability (1: from all)"},
               {"min_p", "SHARE", Number(given_sampling.min_p),
                "sampling:given: draw from tokens with at least this share of the highest probability (0: from all)"},
               {"repetition_penalty", "NUMBER", Number(given_sampling.repetition_penalty),
                "sampling:given: above 1 makes tokens of the prompt or the text less likely"},
               {"sampling_seed", "N", Whole<uint64_t>(given_sampling.seed, 0, UINT64_MAX),
                "sampling:given: seed of the draws; the same text each time"}},
     .check = [] { return models::CheckSampling(given_sampling); },
     .reads = [](const Point& at) { return at.Has("sampling") && at.Text("sampling") == kGiven; },
     .way_out = "--axis=sampling=given selects cases of generate and complete that read it"});

}  // namespace

std::optional<models::SamplingOptions> SamplingOf(std::string_view sampling) {
  return sampling == kGiven ? std::optional(given_sampling) : std::nullopt;
}

}  // namespace roofbench
