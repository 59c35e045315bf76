// SPDX-License-Identifier: Apache-2.0
// Models, token ids and sampling options from flags.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/models/checkpoint/checkpoint.h"
#include "lib/models/generation/sampling.h"
#include "lib/models/generation/token_ids.h"
#include "lib/suite/family_of.h"

namespace roofbench {

// The value of the axis model for --checkpoint, and the name of a draft's model, which the axis does not have.
inline constexpr char kCheckpointModel[] = "checkpoint";
inline constexpr char kDraftModel[] = "draft";

// The checkpoint of --checkpoint, opened once. Unimplemented without the flag.
const absl::StatusOr<models::Checkpoint>& GivenCheckpoint();
// The same for --draft_checkpoint, by default --checkpoint.
const absl::StatusOr<models::Checkpoint>& GivenDraft();
// The one with the name `model`; nullptr for other models.
const absl::StatusOr<models::Checkpoint>* GivenModel(std::string_view model);

// Token ids from a flag, for the model of --checkpoint; tools/tokens makes them from a text.
class GivenIds {
 public:
  using Lists = std::vector<models::TokenIds>;
  using Reader = std::function<absl::StatusOr<Lists>(const std::string& name, const std::string& given)>;

  // `flag`: the value of the flag called `name`; `read` parses it as one list or several.
  GivenIds(std::string name, const std::string& flag, Reader read);

  // The lists, read once, as standard input may be. Unimplemented without the flag, InvalidArgument for anything but
  // ids.
  const absl::StatusOr<Lists>& Get();
  // Checks before anything is measured that the flag, if set, contains ids of the checkpoint's vocabulary.
  absl::Status Check();

 private:
  const std::string name_;
  const std::string& flag_;
  const Reader read_;
  const absl::StatusOr<Lists> without_flag_;
  std::optional<absl::StatusOr<Lists>> lists_;  // of the flag, once it is read
};

// The options of the flags, which have been checked, if the axis `sampling` has the value `given`.
std::optional<models::SamplingOptions> SamplingOf(std::string_view sampling);

}  // namespace roofbench
