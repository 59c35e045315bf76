// SPDX-License-Identifier: Apache-2.0
// Questions that flags of families ask of the machine, answered in place of a run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "lib/device/device.h"

namespace roofbench {

// At namespace scope, beside the flag.
class FlagAnswer {
 public:
  // The device, opened when it is first asked for: what is wrong with the question is said before.
  using Open = std::function<absl::StatusOr<std::unique_ptr<Device>>()>;
  // The text for standard output, in the format of --benchmark_format ("console" or "json").
  using Answer = std::function<absl::StatusOr<std::string>(const std::string& format, const Open& open)>;

  // `asked`: whether the flag was given.
  FlagAnswer(std::string flag, std::function<bool()> asked, Answer answer);
};

// What the first flag that asks is answered; nullopt: none asks. InvalidArgument for a format that answers do not have.
std::optional<absl::StatusOr<std::string>> AnswerFlags(const std::string& format, const FlagAnswer::Open& open);

}  // namespace roofbench
