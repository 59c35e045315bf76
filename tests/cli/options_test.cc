// SPDX-License-Identifier: Apache-2.0
#include "lib/cli/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/text.h"
#include "lib/kernels/threading/thread_pool.h"

namespace roofbench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Options Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "roofbench");
  const auto options = ParseOptions(arguments);
  EXPECT_TRUE(options.ok()) << options.status();
  return options.ok() ? *options : Options{};
}

std::string Error(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "roofbench");
  const auto options = ParseOptions(arguments);
  return options.ok() ? "no error" : std::string(options.status().message());
}

TEST(OptionsTest, FlagsSetTheirOptions) {
  EXPECT_EQ(Parse({}).suite, Suite::kQuick);
  EXPECT_EQ(Parse({"--benchmark_filter=matmul"}).suite, Suite::kFull) << "a filter selects cases itself";
  EXPECT_EQ(Parse({"--benchmark_filter=matmul"}).otherwise, Suite::kMachine);
  EXPECT_EQ(Parse({"--benchmark_filter=matmul", "--suite=standard"}).suite, Suite::kStandard);
  EXPECT_EQ(Parse({"--benchmark_filter=matmul", "--suite=standard"}).otherwise, std::nullopt);
  EXPECT_EQ(Parse({"--suite=machine"}).suite, Suite::kMachine);
  EXPECT_EQ(Parse({"--suite=machine_quick"}).suite, Suite::kMachineQuick);
  EXPECT_EQ(Parse({"--benchmark_min_time=0.5"}).sampling.max_time, 0.5);
  EXPECT_EQ(Parse({"--benchmark_min_time=2s"}).sampling.max_time, 2);
  const Options exact = Parse({"--benchmark_min_time=20x"});
  EXPECT_TRUE(exact.sampling.exact_samples);
  EXPECT_EQ(exact.sampling.max_samples, 20);
  EXPECT_EQ(Parse({"--case_timeout=5"}).case_timeout, 5);
  EXPECT_FALSE(Parse({}).compile.coordinate_descent_tuning);
  EXPECT_TRUE(Parse({"--coordinate_descent_tuning"}).compile.coordinate_descent_tuning);
  EXPECT_TRUE(Parse({"--benchmark_list_tests"}).list_tests);
  EXPECT_FALSE(Parse({"--benchmark_list_tests"}).list_json);
  EXPECT_TRUE(Parse({"--benchmark_list_tests=json"}).list_tests);
  EXPECT_TRUE(Parse({"--benchmark_list_tests=json"}).list_json);
  EXPECT_TRUE(Parse({"--help=all"}).help_all);
  EXPECT_TRUE(Parse({"--version"}).version);
}

TEST(OptionsTest, FlagsOfGoogleBenchmarkMeanTheSame) {
  EXPECT_EQ(Parse({"--benchmark_min_warmup_time=3"}).min_warmup_time, 3) << "the shortest warm-up, not the longest";
  EXPECT_EQ(Parse({"--benchmark_min_warmup_time=3"}).sampling.max_warmup_time, Options().sampling.max_warmup_time);
  EXPECT_EQ(Parse({"--max_warmup_time=3"}).sampling.max_warmup_time, 3);
  const Options dry = Parse({"--benchmark_dry_run", "--benchmark_repetitions=9", "--benchmark_min_time=2s",
                             "--warmup_iters=7", "--benchmark_min_warmup_time=1"});
  EXPECT_TRUE(dry.sampling.exact_samples);
  EXPECT_EQ(dry.sampling.max_samples, 1);
  EXPECT_EQ(dry.repetitions, 1);
  EXPECT_EQ(dry.sampling.warmup_iters, 0);
  EXPECT_EQ(dry.min_warmup_time, 0);
  EXPECT_EQ(dry.roofs, RoofSource::kOff);
  EXPECT_TRUE(dry.check);
  // These have no meaning here, and harm nothing.
  Parse({"--benchmark_counters_tabular", "--benchmark_counters_tabular=false", "--v=2"});
}

TEST(OptionsTest, FlagsHaveOtherSpellings) {
  EXPECT_EQ(Parse({"--filter=matmul"}).filter, "matmul");
  EXPECT_EQ(Parse({"--max-time=0.5"}).sampling.max_time, 0.5);
  EXPECT_TRUE(Parse({"-h"}).help);
}

TEST(OptionsTest, MeasuringFlagsAreComparedInAnyOrder) {
  const auto flags = [](const std::vector<std::string>& arguments) { return Parse(arguments).measuring_flags; };
  EXPECT_THAT(flags({"--seed=1", "--axis=matmul.n=8", "--benchmark_out=x.json", "--journal=j", "--resume",
                     "--case_timeout=3", "--axis=matmul.n=9", "--benchmark_format=csv"}),
              ElementsAre("--axis=matmul.n=8", "--axis=matmul.n=9", "--seed=1"));
  EXPECT_EQ(flags({"--seed=1", "--threads=1"}), flags({"--threads=1", "--seed=1"}));
  EXPECT_EQ(flags({"--filter=a"}), flags({"--benchmark_filter=a"}));
  EXPECT_EQ(flags({"--ranks=2,4", "--axis=bytes=1,2"}), (std::vector<std::string>{"--ranks=2,4", "--axis=bytes=1,2"}))
      << "the ranks that are started with these flags have to make the same plan";
  EXPECT_NE(flags({"--max_time=1", "--benchmark_min_time=2"}), flags({"--benchmark_min_time=2", "--max_time=1"}))
      << "the last of two names of one budget applies";
}

TEST(OptionsTest, TheCommandLineOverridesTheEnvironment) {
  setenv("BENCHMARK_FILTER", "copy", 1);
  setenv("BENCHMARK_MIN_TIME", "3x", 1);
  const Options options = Parse({"--benchmark_filter=read"});
  EXPECT_EQ(options.filter, "read");
  EXPECT_EQ(options.sampling.max_samples, 3);
  EXPECT_EQ(std::getenv("BENCHMARK_FILTER"), nullptr);
  EXPECT_EQ(std::getenv("BENCHMARK_MIN_TIME"), nullptr);
}

TEST(OptionsTest, AxesAreRepeatable) {
  const Options options = Parse({"--axis=matmul.n=3000,5", "--axis=dtype=bf16"});
  ASSERT_EQ(options.axes.size(), 2);
  EXPECT_EQ(options.axes[0].family, "matmul");
  EXPECT_EQ(options.axes[0].axis, "n");
  EXPECT_THAT(options.axes[0].values, ElementsAre("3000", "5"));
  EXPECT_EQ(options.axes[1].family, "");
}

TEST(OptionsTest, AnAxisTakesRanges) {
  const Options options = Parse({"--axis=n=256:4096:x2,5000", "--axis=m=100:350:+100", "--axis=k=7:7:x2"});
  ASSERT_EQ(options.axes.size(), 3);
  EXPECT_THAT(options.axes[0].values, ElementsAre("256", "512", "1024", "2048", "4096", "5000"));
  EXPECT_THAT(options.axes[1].values, ElementsAre("100", "200", "300"));
  EXPECT_THAT(options.axes[2].values, ElementsAre("7"));
  const Options last = Parse({"--axis=n=4611686018427387904:9223372036854775807:x2"});
  EXPECT_THAT(last.axes[0].values, ElementsAre("4611686018427387904")) << "the next value overflows";
}

TEST(OptionsTest, TheCommandLineIsQuotedForAShell) {
  EXPECT_EQ(Parse({"--filter=a b"}).command_line, "roofbench '--filter=a b'");
  EXPECT_EQ(Parse({"--filter=it's"}).command_line, "roofbench '--filter=it'\\''s'");
}

// Bad command lines are a table of tests/benchmarks/refusals_test.cc, which has the families.

TEST(OptionsTest, MoreThreadsThanProcessorsNeedASecondFlag) {
  const int processors = kernels::Processors();
  const std::string all = absl::StrCat("--threads=", processors);
  const std::string more = absl::StrCat("--threads=", processors + 1);
  EXPECT_EQ(Parse({all}).threads, processors);
  EXPECT_THAT(Error({more}),
              AllOf(HasSubstr(more), HasSubstr(absl::StrCat("above the ", processors)), HasSubstr("--oversubscribe")));
  EXPECT_EQ(Parse({more, "--oversubscribe"}).threads, processors + 1);
}

// Lines of "  --name", for each flag of the table.
std::map<std::string, int> HelpLines(bool all) {
  std::map<std::string, int> lines;
  Options options;
  for (const FlagGroup& group : FlagTable(options)) {
    for (const Flag& flag : group.flags) lines[flag.name] = 0;
  }
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(HelpText(all), '\n'))) {
    EXPECT_LE(DisplayWidth(line), 80) << line;
    if (absl::StartsWith(line, "  --")) ++lines[line.substr(4, line.find_first_of("= [", 4) - 4)];
  }
  return lines;
}

TEST(OptionsTest, HelpNamesEveryFlagOnce) {
  for (const auto& [flag, count] : HelpLines(/*all=*/true)) EXPECT_EQ(count, 1) << flag;
  EXPECT_THAT(HelpText(true), AllOf(HasSubstr("Examples"), HasSubstr("[a100-sxm4-40gb]"), HasSubstr("[=json]")));
}

TEST(OptionsTest, HelpFitsAScreen) {
  int shown = 0;
  for (const auto& [flag, count] : HelpLines(/*all=*/false)) shown += count;
  EXPECT_GE(shown, 28);
  const std::string help = HelpText(false);
  EXPECT_LE(std::count(help.begin(), help.end(), '\n'), 55) << "the program's families add flags";
}

}  // namespace
}  // namespace roofbench
