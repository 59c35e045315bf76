// SPDX-License-Identifier: Apache-2.0
// Token ids that a flag gives for the model of --checkpoint: tools/tokens makes them from a text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/models/checkpoint/token_ids.h"

namespace roofbench {

class GivenIds {
 public:
  using Lists = std::vector<models::TokenIds>;
  using Reader = std::function<absl::StatusOr<Lists>(const std::string& name, const std::string& given)>;

  // `value` reads the flag called `name`, and `read` takes its text for one list or several.
  GivenIds(std::string name, std::function<std::string()> value, Reader read);

  // The lists; Unimplemented without the flag, InvalidArgument for what are no ids. Read once: standard input has no
  // second time.
  const absl::StatusOr<Lists>& Get();
  // Before anything is measured: a flag that was given must hold ids of the checkpoint's vocabulary.
  absl::Status Check();

 private:
  absl::StatusOr<Lists> Read() const;

  const std::string name_;
  const std::function<std::string()> value_;
  const Reader read_;
  std::optional<absl::StatusOr<Lists>> lists_;
};

}  // namespace roofbench
