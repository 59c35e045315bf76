// SPDX-License-Identifier: Apache-2.0
// Token ids that a flag gives for the model of --checkpoint: tools/tokens makes them from a text.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/models/checkpoint/token_ids.h"

namespace roofbench {

class GivenIds {
 public:
  // `value` reads the flag called `name`. At least `fewest` ids are wanted.
  GivenIds(std::string name, std::function<std::string()> value, std::size_t fewest);

  // The ids; Unimplemented without the flag, InvalidArgument for what are no ids. Read once: standard input has no
  // second time.
  const absl::StatusOr<models::TokenIds>& Get();
  // Before anything is measured: a flag that was given must hold ids of the checkpoint's vocabulary.
  absl::Status Check();

 private:
  absl::StatusOr<models::TokenIds> Read() const;

  const std::string name_;
  const std::function<std::string()> value_;
  const std::size_t fewest_;
  std::optional<absl::StatusOr<models::TokenIds>> ids_;
};

}  // namespace roofbench
