// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/arguments.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "lib/base/text.h"
#include "lib/gbench/flags.h"

namespace roofbench {
namespace {

using absl::StrCat;

bool IsAside(const std::string& name) {
  const FlagRow* const row = FindFlagRow(name);
  return row != nullptr && row->aside;
}

}  // namespace

std::optional<Argument> SplitArgument(const std::string& text) {
  if (!absl::StartsWith(text, "-") || text == "-" || text == "--") return std::nullopt;
  const std::string body(absl::StripPrefix(absl::StripPrefix(text, "-"), "-"));
  const std::size_t equals = body.find('=');
  Argument argument{.name = body.substr(0, equals)};
  if (equals != std::string::npos) argument.value = body.substr(equals + 1);
  const auto alias = FlagAliases().find(argument.name);
  if (alias != FlagAliases().end()) argument.name = alias->second;
  const auto renamed = RenamedFlags().find(argument.name);
  if (renamed != RenamedFlags().end()) argument.old_name = std::exchange(argument.name, renamed->second);
  return argument;
}

std::string CommandLine(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain = "-_=+.,:/@%^";
  std::vector<std::string> quoted;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](char one) {
      return absl::ascii_isalnum(static_cast<unsigned char>(one)) || kPlain.find(one) != std::string_view::npos;
    });
    quoted.push_back(plain ? word : StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'"));
  }
  return absl::StrJoin(quoted, " ");
}

std::vector<std::string> MeasuringFlags(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::string>> flags;
  for (const std::string& text : texts) {
    const std::optional<Argument> argument = SplitArgument(text);
    if (!argument || IsAside(argument->name)) continue;
    const bool budget = argument->name == "benchmark_min_time";  // another name of max_time
    flags.emplace_back(budget ? "max_time" : argument->name,
                       StrCat("--", argument->name, argument->value ? StrCat("=", *argument->value) : ""));
  }
  std::stable_sort(flags.begin(), flags.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> sorted;
  for (auto& [name, text] : flags) sorted.push_back(std::move(text));
  return sorted;
}

}  // namespace roofbench
