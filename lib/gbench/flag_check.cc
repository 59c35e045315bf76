// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/flag_check.h"

#include <utility>
#include <vector>

namespace roofbench {
namespace {

std::vector<std::function<absl::Status()>>& Checks() {
  static auto* checks = new std::vector<std::function<absl::Status()>>();
  return *checks;
}

}  // namespace

FlagCheck::FlagCheck(std::function<absl::Status()> check) { Checks().push_back(std::move(check)); }

absl::Status CheckFlags() {
  for (const auto& check : Checks()) {
    if (absl::Status status = check(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace roofbench
