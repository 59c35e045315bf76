// SPDX-License-Identifier: Apache-2.0
#include "lib/cli/flags.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace roofbench {
namespace {

using absl::StrCat;

std::vector<FamilyFlags>& Registered() {
  static auto* registered = new std::vector<FamilyFlags>();
  return *registered;
}

// The first flag whose given value differs from its default.
const Flag* FirstGiven(const std::vector<Flag>& flags, const GivenFlags& given) {
  for (const Flag& flag : flags) {
    const auto found = given.find(flag.name);
    if (found != given.end() && found->second != flag.target.default_text) return &flag;
  }
  return nullptr;
}

}  // namespace

absl::Status Expected(const std::string& values) { return absl::InvalidArgumentError(StrCat("expected ", values)); }

FlagTarget Switch(bool& target) {
  const auto read = [&target](const std::string& text) {
    const std::string lower = absl::AsciiStrToLower(text);
    const auto is_any = [&](const std::vector<std::string>& words) {
      return std::find(words.begin(), words.end(), lower) != words.end();
    };
    const bool is_on = is_any({"true", "1", "yes", "on"});
    if (!is_on && !is_any({"false", "0", "no", "off"})) return Expected("true or false");
    target = is_on;
    return absl::OkStatus();
  };
  return {.read = read, .is_switch = true};
}

FlagTarget Text(std::string& target) {
  const auto read = [&target](const std::string& text) {
    target = text;
    return absl::OkStatus();
  };
  return {.read = read, .default_text = target};
}

FlagTarget OneOf(std::string& target, const std::vector<std::string>& choices) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const std::string& choice : choices) values.emplace_back(choice, choice);
  return OneOf<std::string>(target, values);
}

FlagTarget Number(double& target) {
  const auto read = [&target](const std::string& text) {
    return absl::SimpleAtod(text, &target) ? absl::OkStatus() : Expected("a number");
  };
  return {.read = read, .default_text = StrCat(target)};
}

FlagTarget Number(double& target, double least, double most) {
  const auto read = [&target, least, most](const std::string& text) {
    double number = 0;
    // NaN is outside every range.
    if (!absl::SimpleAtod(text, &number) || !(number >= least && number <= most)) {
      return Expected(StrCat("a number from ", least, " to ", most));
    }
    target = number;
    return absl::OkStatus();
  };
  return {.read = read, .default_text = StrCat(target)};
}

FlagTarget Seconds(double& target) {
  constexpr double kDay = 86400;
  FlagTarget made = Number(target, 0, kDay);
  made.read = [read = std::move(made.read)](const std::string& text) {
    return read(std::string(absl::StripSuffix(text, "s"))).ok() ? absl::OkStatus()
                                                                : Expected("seconds from 0 to 86400");
  };
  return made;
}

FlagRegistration::FlagRegistration(FamilyFlags flags) {
  std::vector<FamilyFlags>& all = Registered();
  const auto later = std::upper_bound(all.begin(), all.end(), flags, [](const FamilyFlags& a, const FamilyFlags& b) {
    return a.flags.front().name < b.flags.front().name;
  });
  all.insert(later, std::move(flags));
}

std::vector<Flag> RegisteredFlags() {
  std::vector<Flag> flags;
  for (const FamilyFlags& some : Registered()) flags.insert(flags.end(), some.flags.begin(), some.flags.end());
  return flags;
}

absl::Status CheckFlags(const GivenFlags& given, const std::vector<PlannedCase>& plan) {
  for (const FamilyFlags& some : Registered()) {
    if (!some.check) continue;
    if (absl::Status status = some.check(); !status.ok()) return status;
  }
  for (const FamilyFlags& some : Registered()) {
    const Flag* const flag = FirstGiven(some.flags, given);
    if (!some.reads || flag == nullptr) continue;
    if (std::ranges::any_of(plan, [&](const PlannedCase& planned) { return some.reads(planned.point); })) continue;
    return absl::InvalidArgumentError(StrCat("--", flag->name, " has no effect on the selected cases: ", some.way_out));
  }
  return absl::OkStatus();
}

std::optional<absl::StatusOr<std::string>> AnswerFlags(const GivenFlags& given, const std::string& format,
                                                       const FamilyFlags::Open& open) {
  for (const FamilyFlags& some : Registered()) {
    const Flag* const flag = FirstGiven(some.flags, given);
    if (!some.answer || flag == nullptr) continue;
    if (format != "console" && format != "json") {
      return absl::InvalidArgumentError(
          StrCat("--benchmark_format=", format, ": --", flag->name, " answers as console or json"));
    }
    return some.answer(format, open);
  }
  return std::nullopt;
}

}  // namespace roofbench
