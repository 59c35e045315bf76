// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/macro/given_ids.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/macro/given_checkpoint.h"

namespace roofbench {

GivenIds::GivenIds(std::string name, std::function<std::string()> value, std::size_t fewest)
    : name_(std::move(name)), value_(std::move(value)), fewest_(fewest) {}

const absl::StatusOr<models::TokenIds>& GivenIds::Get() {
  if (!ids_) ids_ = Read();
  return *ids_;
}

absl::StatusOr<models::TokenIds> GivenIds::Read() const {
  const std::string given = value_();
  if (given.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("needs --checkpoint=FOLDER and ", name_, ", which tools/tokens makes from a text"));
  }
  auto ids = models::ReadTokenIds(name_, given);
  if (ids.ok() && ids->size() < fewest_) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": at least ", fewest_, " tokens are wanted"));
  }
  return ids;
}

absl::Status GivenIds::Check() {
  if (value_().empty()) return absl::OkStatus();
  const absl::StatusOr<models::TokenIds>& ids = Get();
  if (!ids.ok()) return ids.status();
  if (!GivenCheckpoint().ok()) return absl::OkStatus();  // its own flag is checked, too
  const auto vocab = static_cast<int64_t>(GivenCheckpoint()->config().shape.base.vocab);
  const int64_t largest = *std::max_element(ids->begin(), ids->end());
  if (largest < vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name_, ": ", largest, " is no token of the checkpoint, which has ", vocab));
}

}  // namespace roofbench
