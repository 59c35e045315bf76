// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/flag_check.h"

#include <algorithm>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

struct Use {
  std::vector<std::string> flags;
  std::function<bool(const Point&)> reads;
  std::string way_out;
};

std::vector<std::function<absl::Status()>>& Checks() {
  static auto* checks = new std::vector<std::function<absl::Status()>>();
  return *checks;
}

std::vector<Use>& Uses() {
  static auto* uses = new std::vector<Use>();
  return *uses;
}

bool IsGiven(const std::string& name) {
  const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
  return flag != nullptr && flag->CurrentValue() != flag->DefaultValue();
}

}  // namespace

FlagCheck::FlagCheck(std::function<absl::Status()> check) { Checks().push_back(std::move(check)); }

FlagUse::FlagUse(std::vector<std::string> flags, std::function<bool(const Point&)> reads, std::string way_out) {
  Uses().push_back({std::move(flags), std::move(reads), std::move(way_out)});
}

absl::Status CheckFlags(const std::vector<PlannedCase>& plan) {
  for (const auto& check : Checks()) {
    if (absl::Status status = check(); !status.ok()) return status;
  }
  for (const auto& [flags, reads, way_out] : Uses()) {
    const auto given = std::ranges::find_if(flags, IsGiven);
    if (given == flags.end()) continue;
    if (std::ranges::any_of(plan, [&](const PlannedCase& planned) { return reads(planned.point); })) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", *given, " says nothing to the selected cases: ", way_out));
  }
  return absl::OkStatus();
}

}  // namespace roofbench
