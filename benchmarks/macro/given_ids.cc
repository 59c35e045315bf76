// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/macro/given_ids.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/macro/given_checkpoint.h"

namespace roofbench {

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

}  // namespace roofbench
