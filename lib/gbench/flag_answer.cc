// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/flag_answer.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

struct Question {
  std::string flag;
  std::function<bool()> asked;
  FlagAnswer::Answer answer;
};

std::vector<Question>& Questions() {
  static auto* questions = new std::vector<Question>();
  return *questions;
}

}  // namespace

FlagAnswer::FlagAnswer(std::string flag, std::function<bool()> asked, Answer answer) {
  Questions().push_back({std::move(flag), std::move(asked), std::move(answer)});
}

std::optional<absl::StatusOr<std::string>> AnswerFlags(const std::string& format, const FlagAnswer::Open& open) {
  for (const Question& question : Questions()) {
    if (!question.asked()) continue;
    if (format != "console" && format != "json") {
      return absl::InvalidArgumentError(
          absl::StrCat("--benchmark_format=", format, ": ", question.flag, " answers as console or json"));
    }
    return question.answer(format, open);
  }
  return std::nullopt;
}

}  // namespace roofbench
