// SPDX-License-Identifier: Apache-2.0
// Flags as rows of a table: a row has the name, the help, and a target that knows type, range and variable. Families
// register additional rows.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/device/device.h"
#include "lib/run/roof_stage.h"
#include "lib/suite/plan.h"

namespace roofbench {

// The destination of a flag's text.
struct FlagTarget {
  // InvalidArgument states the expected values, without the flag's name.
  std::function<absl::Status(const std::string& text)> read;
  std::string default_text = {};
  bool is_switch = false;  // --name alone means --name=true
};

// Returns "expected …", as InvalidArgument.
absl::Status Expected(const std::string& values);

FlagTarget Switch(bool& target);
FlagTarget Text(std::string& target);
FlagTarget OneOf(std::string& target, const std::vector<std::string>& choices);
FlagTarget Number(double& target);  // any
FlagTarget Number(double& target, double least, double most);
// From 0 to a day, as "1.5" or "1.5s".
FlagTarget Seconds(double& target);

template <typename Integer>
FlagTarget Whole(Integer& target, Integer least, Integer most) {
  const auto read = [&target, least, most](const std::string& text) {
    Integer number = 0;
    if (!absl::SimpleAtoi(text, &number) || number < least || number > most) {
      return Expected(absl::StrCat("a whole number from ", least, " to ", most));
    }
    target = number;
    return absl::OkStatus();
  };
  return {.read = read, .default_text = absl::StrCat(target)};
}

// One of the values by its name.
template <typename Value>
FlagTarget OneOf(Value& target, const std::vector<std::pair<std::string, Value>>& values) {
  FlagTarget made;
  std::vector<std::string> names;
  for (const auto& [name, value] : values) {
    names.push_back(name);
    if (value == target) made.default_text = name;
  }
  made.read = [&target, values, names](const std::string& text) {
    for (const auto& [name, value] : values) {
      if (name != text) continue;
      target = value;
      return absl::OkStatus();
    }
    return Expected(absl::StrJoin(names, ", "));
  };
  return made;
}

// Properties of a flag, combined by addition.
enum : unsigned {
  kCommon = 1,  // shown by --help; --help=all shows every flag
  // Affects where results go or when to give up, not what is measured or how: a resumed run may change it.
  kAside = 2,
  kLibrary = 4,  // also given to Google Benchmark, which acts on it
  kOnce = 8,     // of this process alone: no journal keeps it
};

struct Flag {
  std::string name;
  std::string value;  // as help shows it; empty for a switch, "[…]" if it is optional
  FlagTarget target;
  std::string help;
  unsigned properties = 0;
};

struct FlagGroup {
  std::string title;
  std::vector<Flag> flags;
};

// The given flags with their last values.
using GivenFlags = std::map<std::string, std::string>;

// Flags that families register.
struct FamilyFlags {
  struct Opened {
    std::unique_ptr<Device> device;
    RoofOrigin roofs;
  };
  // Opens the device and obtains the roofs that --roofs allows; called once an invalid question would be refused.
  using Open = std::function<absl::StatusOr<Opened>(const hardware::RoofNeeds& needs)>;

  std::vector<Flag> flags;
  // Validates the values, once, before anything is measured, in the initial process.
  std::function<absl::Status()> check = {};
  // The points whose cases read the flags. A given flag that no selected case reads is refused; `way_out` explains how
  // to select one.
  std::function<bool(const Point&)> reads = {};
  std::string way_out = {};
  // Answers a given flag instead of running cases: returns text for standard output, in the format "console" or "json".
  std::function<absl::StatusOr<std::string>(const std::string& format, const Open& open)> answer = {};
};

// Declare at namespace scope, next to the targets of the flags.
class FlagRegistration {
 public:
  explicit FlagRegistration(FamilyFlags flags);
};

// Every registered flag, in an order independent of the linker.
std::vector<Flag> RegisteredFlags();

// Returns the first error of the registered checks, or an error naming the first given flag that no case of the plan
// reads.
absl::Status CheckFlags(const GivenFlags& given, const std::vector<PlannedCase>& plan);

// The answer to the first given flag that asks a question; nullopt if there is none. InvalidArgument for an unknown
// format.
std::optional<absl::StatusOr<std::string>> AnswerFlags(const GivenFlags& given, const std::string& format,
                                                       const FamilyFlags::Open& open);

}  // namespace roofbench
