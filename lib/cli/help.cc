// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lib/base/process.h"
#include "lib/base/text.h"
#include "lib/cli/options.h"
#include "lib/suite/family.h"

namespace roofbench {
namespace {

using absl::StrCat;

constexpr std::size_t kWidth = 80;
constexpr std::size_t kColumn = 32;  // column of the descriptions

// "  --name=VALUE    meaning [default]", wrapped.
std::string FlagLines(const Flag& flag) {
  std::string head = StrCat("  --", flag.name);
  if (!flag.value.empty() && flag.value.front() == '[' && flag.target.is_switch) {
    head = StrCat("  --", flag.name, "[=", flag.value.substr(1));
  } else if (!flag.value.empty()) {
    absl::StrAppend(&head, "=", flag.value);
  }
  const std::string& default_text = flag.target.default_text;
  const std::string meaning = StrCat(flag.help, default_text.empty() ? "" : StrCat(" [", default_text, "]"));
  std::string text;
  for (const std::string& line : Wrapped(absl::StrSplit(meaning, ' '), kWidth - kColumn)) {
    if (DisplayWidth(head) + 1 > kColumn) absl::StrAppend(&text, std::exchange(head, ""), "\n");
    absl::StrAppend(&text, PadRight(std::exchange(head, ""), kColumn), line, "\n");
  }
  return text;
}

// Uses the family whose time grows fastest, which best shows the effect of sizes.
std::string Examples() {
  const ExpectedGrowth* fastest = nullptr;
  std::string name;
  for (const Family& family : Families()) {
    for (const ExpectedGrowth& growth : family.growth()) {
      if (fastest != nullptr && fastest->exponent >= growth.exponent) continue;
      fastest = &growth;
      name = family.name();
    }
  }
  std::string text = "\nExamples\n";
  const auto add = [&](const std::string& flags, const std::string& meaning) {
    absl::StrAppendFormat(&text, "  %-60s  %s\n", StrCat(ProgramName(), " ", flags), meaning);
  };
  add("", "the quick suite");
  if (fastest != nullptr) {
    add(StrCat("--filter='^", name, "/' --axis=", name, ".", fastest->axis, "=3000"), "your own size");
    add(StrCat("--filter='^", name, "/' --benchmark_repetitions=9"), "nine runs each");
  }
  add("--suite=full --journal=all.jsonl --case_timeout=900", "everything");
  add("--journal=all.jsonl --resume", "continued");
  return text;
}

}  // namespace

std::string HelpText(bool all) {
  std::string text = StrCat("usage: ", ProgramName(), " [flags]\n",
                            "How fast is deep-learning work on this machine, and how far from possible?\n");
  Options defaults;
  for (const FlagGroup& group : FlagTable(defaults)) {
    std::string lines;
    for (const Flag& flag : group.flags) {
      if (all || (flag.properties & kCommon) != 0) absl::StrAppend(&lines, FlagLines(flag));
    }
    if (!lines.empty()) absl::StrAppend(&text, "\n", group.title, "\n", lines);
  }
  return StrCat(text, Examples(),
                "\nExit status\n"
                "  0        everything that can run here was measured\n"
                "  1        a case failed, or an output could not be written\n"
                "  2        refused before anything ran: a flag, a file, a device\n"
                "  128 + n  ended by signal n, with everything measured so far written\n");
}

}  // namespace roofbench
