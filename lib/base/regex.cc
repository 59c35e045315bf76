// SPDX-License-Identifier: Apache-2.0
#include "lib/base/regex.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

// Enough for an alternation of the names of all cases. Any expression within the limits compiles in seconds.
constexpr std::size_t kMostStates = 150'000;
constexpr std::size_t kMostChoices = 5'000;  // | * + ? {}: compiling is quadratic in their number
constexpr int kMostNested = 50;

// The end of the bracket expression that begins at `at`: "[]a]", "[^]a]", "[[:alpha:]]".
std::size_t EndOfBracket(const std::string& text, std::size_t at) {
  std::size_t end = at + 1;
  if (end < text.size() && text[end] == '^') ++end;
  if (end < text.size() && text[end] == ']') ++end;
  while (end < text.size() && text[end] != ']') {
    const bool is_class =
        text[end] == '[' && end + 1 < text.size() && std::string(".:=").find(text[end + 1]) != std::string::npos;
    const std::size_t closed = is_class ? text.find(std::string({text[end + 1], ']'}), end + 2) : std::string::npos;
    end = closed == std::string::npos ? end + 1 : closed + 2;
  }
  return end;
}

// The larger count of "{m,n}", which begins at `at`.
std::size_t Repetitions(const std::string& text, std::size_t at) {
  const std::size_t end = std::min(text.find('}', at), text.size());
  std::size_t most = 1;
  for (std::size_t digit = at + 1; digit < end;) {
    std::size_t count = 0;
    const auto [after, error] = std::from_chars(text.data() + digit, text.data() + end, count);
    if (error == std::errc::result_out_of_range) count = kMostChoices + 1;
    most = std::max<std::size_t>(most, std::min<std::size_t>(count, kMostChoices + 1));
    digit = static_cast<std::size_t>(after - text.data()) + 1;
  }
  return most;
}

// Rejects expressions that would take regcomp too much memory, stack or time.
absl::Status CheckSize(const std::string& text) {
  std::size_t repeats = 1;
  std::size_t choices = 1;
  int open = 0;
  for (std::size_t at = 0; at < text.size() && repeats <= kMostChoices; ++at) {
    const bool choice = std::string_view("|*+?{").find(text[at]) != std::string_view::npos;
    if (text[at] == '\\') {
      ++at;
      if (at < text.size() && text[at] >= '1' && text[at] <= '9') {
        return absl::InvalidArgumentError(absl::StrCat("\\", text.substr(at, 1), " refers to a group"));
      }
    } else if (text[at] == '[') {
      at = EndOfBracket(text, at);
    } else if (choice) {
      ++choices;
      if (text[at] == '{') repeats *= Repetitions(text, at);  // as if each repeated all of it
    } else if (text[at] == '(' && ++open > kMostNested) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kMostNested, " nested parentheses"));
    } else if (text[at] == ')' && --open < 0) {
      return absl::InvalidArgumentError("Unmatched )");
    }
  }
  if (repeats <= kMostChoices && choices * repeats <= kMostChoices && text.size() * repeats <= kMostStates) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("it is too long: ", kMostStates, " characters and ", kMostChoices,
                                                 " of | * + ? {} are the most, each times the counts in {}"));
}

}  // namespace

absl::StatusOr<Regex> Regex::Make(const std::string& expression) {
  if (absl::Status status = CheckSize(expression); !status.ok()) return status;
  auto compiled = std::make_unique<regex_t>();
  if (const int error = regcomp(compiled.get(), expression.c_str(), REG_EXTENDED | REG_NOSUB); error != 0) {
    std::array<char, 256> reason{};
    regerror(error, compiled.get(), reason.data(), reason.size());
    return absl::InvalidArgumentError(reason.data());
  }
  Regex regex;
  regex.compiled_ = std::shared_ptr<const regex_t>(compiled.release(), [](const regex_t* owned) {
    auto* mine = const_cast<regex_t*>(owned);
    regfree(mine);
    delete mine;
  });
  return regex;
}

bool Regex::Finds(const std::string& text) const { return regexec(compiled_.get(), text.c_str(), 0, nullptr, 0) == 0; }

}  // namespace roofbench
