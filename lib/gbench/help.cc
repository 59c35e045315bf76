// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/help.h"

#include <utility>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/process.h"
#include "lib/base/text.h"
#include "lib/gbench/flags.h"
#include "lib/suite/family.h"

namespace roofbench {

using absl::StrCat;

namespace {

struct Example {
  std::string command;
  std::string meaning;
};

// Of the families that this program has: the one whose time grows fastest shows best what sizes do.
std::vector<Example> FamilyExamples() {
  const ExpectedGrowth* fastest = nullptr;
  std::string name;
  for (const Family& family : Families()) {
    for (const ExpectedGrowth& growth : family.growth()) {
      if (fastest != nullptr && fastest->exponent >= growth.exponent) continue;
      fastest = &growth;
      name = family.name();
    }
  }
  if (fastest == nullptr) return {};
  return {
      {StrCat("--benchmark_filter='^", name, "/' --suite=standard"), "one family"},
      {StrCat("--benchmark_filter='^", name, "/' --axis=", name, ".", fastest->axis, "=3000"), "a size of your own"},
      {StrCat("--benchmark_filter='^", name, "/' --benchmark_repetitions=9 --benchmark_out=", name, ".json"),
       "for compare.py"}};
}

std::string Examples() {
  std::vector<Example> examples = {{"", "the quick suite"}};
  for (Example& example : FamilyExamples()) examples.push_back(std::move(example));
  examples.push_back({"--suite=standard --threads=1 --max_step_time=1", "one thread, nothing slow"});
  examples.push_back({"--suite=full --benchmark_out=full.json --journal=full.jsonl --case_timeout=900", "all of it"});
  examples.push_back({"--suite=full --benchmark_out=full.json --journal=full.jsonl --resume", "and on after a stop"});
  std::string text = "\nExamples\n";
  for (const Example& example : examples) {
    absl::StrAppendFormat(&text, "  %-60s  %s\n", StrCat(ProgramName(), " ", example.command), example.meaning);
  }
  return text;
}

}  // namespace

std::string HelpText() {
  std::string text =
      StrCat(ProgramName(),
             ": how fast is deep-learning work on this machine, and how far from possible?\n\nusage: ", ProgramName(),
             " [flags]\n");
  for (const FlagGroup& group : FlagGroups()) {
    absl::StrAppend(&text, "\n", View(group.title), "\n");
    for (const FlagRow& row : group.flags) {
      const std::string flag = StrCat("  --", View(row.name), row.value.empty() ? "" : "=", View(row.value));
      const absl::CommandLineFlag* ours = absl::FindCommandLineFlag(View(row.name));
      const std::string doc = row.doc.empty() ? ours->Help() : std::string(row.doc);
      absl::StrAppend(&text, flag, flag.size() < 40 ? std::string(40 - flag.size(), ' ') : "\n" + std::string(40, ' '),
                      doc);
      if (ours != nullptr && !ours->IsOfType<bool>() && !ours->DefaultValue().empty()) {
        absl::StrAppend(&text, " [", ours->DefaultValue(), "]");
      }
      absl::StrAppend(&text, "\n");
    }
  }
  absl::StrAppend(&text, Examples(),
                  "\nExit status\n"
                  "  0        everything that can run here was measured\n"
                  "  1        a case failed, or an output could not be written\n"
                  "  2        refused before anything ran: a flag, a file, a device\n"
                  "  128 + n  ended by signal n, with everything measured so far written\n");
  return text;
}

}  // namespace roofbench
