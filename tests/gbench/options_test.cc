// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/options.h"

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

TEST(OptionsTest, SuiteIsQuickUnlessAFilterSaysWhatIsWanted) {
  EXPECT_EQ(Parse({}).suite, Suite::kQuick);
  EXPECT_EQ(Parse({"--benchmark_filter=matmul"}).suite, Suite::kFull);
  EXPECT_EQ(Parse({"--benchmark_filter=matmul", "--suite=standard"}).suite, Suite::kStandard);
}

TEST(OptionsTest, MinTimeIsABudgetOrACount) {
  EXPECT_EQ(Parse({"--benchmark_min_time=0.5"}).sampling.max_time, 0.5);
  EXPECT_EQ(Parse({"--benchmark_min_time=2s"}).sampling.max_time, 2);
  const Options exact = Parse({"--benchmark_min_time=20x"});
  EXPECT_TRUE(exact.sampling.exact_samples);
  EXPECT_EQ(exact.sampling.max_samples, 20);
}

TEST(OptionsTest, EnvironmentComesFirstAndTheCommandLineWins) {
  setenv("BENCHMARK_FILTER", "copy", 1);
  setenv("BENCHMARK_MIN_TIME", "3x", 1);
  const Options options = Parse({"--benchmark_filter=read"});
  EXPECT_EQ(options.filter, "read");
  EXPECT_EQ(options.sampling.max_samples, 3);
  EXPECT_EQ(std::getenv("BENCHMARK_FILTER"), nullptr);
  EXPECT_EQ(std::getenv("BENCHMARK_MIN_TIME"), nullptr);
}

TEST(OptionsTest, ATimeLimitNeedsAParentAndNoJournal) {
  EXPECT_EQ(Parse({"--case_timeout=5"}).case_timeout, 5);
  EXPECT_THAT(Error({"--case_timeout=5", "--supervise=false"}), HasSubstr("--supervise"));
  EXPECT_THAT(Error({"--case_timeout=0", "--resume"}), HasSubstr("--resume needs --journal"));
}

TEST(OptionsTest, AxesAreRepeatable) {
  const Options options = Parse({"--axis=matmul.n=3000,5", "--axis=dtype=bf16"});
  ASSERT_EQ(options.axes.size(), 2);
  EXPECT_EQ(options.axes[0].family, "matmul");
  EXPECT_EQ(options.axes[0].axis, "n");
  EXPECT_THAT(options.axes[0].values, testing::ElementsAre("3000", "5"));
  EXPECT_EQ(options.axes[1].family, "");
}

TEST(OptionsTest, AnAxisTakesRanges) {
  const Options options = Parse({"--axis=n=256:4096:x2,5000", "--axis=m=100:350:+100", "--axis=k=7:7:x2"});
  ASSERT_EQ(options.axes.size(), 3);
  EXPECT_THAT(options.axes[0].values, testing::ElementsAre("256", "512", "1024", "2048", "4096", "5000"));
  EXPECT_THAT(options.axes[1].values, testing::ElementsAre("100", "200", "300"));
  EXPECT_THAT(options.axes[2].values, testing::ElementsAre("7"));
  const Options last = Parse({"--axis=n=4611686018427387904:9223372036854775807:x2"});
  EXPECT_THAT(last.axes[0].values, testing::ElementsAre("4611686018427387904")) << "the next one is no number";
}

TEST(OptionsTest, OtherSpellingsOfFlags) {
  EXPECT_EQ(Parse({"--filter=matmul"}).filter, "matmul");
  EXPECT_EQ(Parse({"--max-time=0.5"}).sampling.max_time, 0.5);
  EXPECT_EQ(Parse({"--filter=a"}).measuring_flags, Parse({"--benchmark_filter=a"}).measuring_flags);
  EXPECT_TRUE(Parse({"-h"}).help);
  EXPECT_TRUE(Parse({"--help=all"}).help_all);
  EXPECT_TRUE(Parse({"--version"}).version);
}

TEST(OptionsTest, CompilersTuneWhereTheyAreAskedTo) {
  EXPECT_FALSE(Parse({}).compile.coordinate_descent_tuning);
  EXPECT_TRUE(Parse({"--coordinate_descent_tuning"}).compile.coordinate_descent_tuning);
}

TEST(OptionsTest, ListsAsTextOrAsJson) {
  EXPECT_TRUE(Parse({"--benchmark_list_tests"}).list_tests);
  EXPECT_FALSE(Parse({"--benchmark_list_tests"}).list_json);
  EXPECT_TRUE(Parse({"--benchmark_list_tests=json"}).list_tests);
  EXPECT_TRUE(Parse({"--benchmark_list_tests=json"}).list_json);
}

TEST(OptionsTest, TheCommandLineIsKeptAsAShellTakesIt) {
  EXPECT_EQ(Parse({"--filter=a b"}).command_line, "roofbench '--filter=a b'");
  EXPECT_EQ(Parse({"--filter=it's"}).command_line, "roofbench '--filter=it'\\''s'");
}

struct Bad {
  std::vector<std::string> arguments;
  std::vector<std::string> said;  // every part must stand in the message
};

TEST(OptionsTest, BadCommandLinesAreRefusedByName) {
  const Bad table[] = {
      {{"--benchmark_fliter=x"}, {"--benchmark_fliter", "did you mean --benchmark_filter"}},
      {{"--nonsense"}, {"--nonsense", "--help"}},
      {{"matmul"}, {"'matmul'", "--benchmark_filter"}},
      {{"--suite=huge"}, {"--suite=huge", "quick, standard, full"}},
      {{"--axis=n"}, {"--axis=n", "[family.]name=v1,v2"}},
      {{"--axis=matmul.=3"}, {"--axis=matmul.=3"}},
      {{"--axis=n="}, {"--axis=n="}},
      {{"--axis"}, {"--axis="}},
      {{"--threads=-1"}, {"--threads=-1", "0 to 4096"}},
      {{"--threads=many"}, {"--threads=many"}},
      {{"--threads=99999999999999999999"}, {"--threads=99999999999999999999"}},
      {{"--seed=-1"}, {"--seed=-1"}},
      {{"--seed"}, {"--seed needs a value"}},
      {{"--min_samples=0"}, {"--min_samples=0"}},
      {{"--min_samples=20", "--max_samples=10"}, {"--min_samples=20", "--max_samples=10"}},
      {{"--max_time=-1"}, {"--max_time=-1"}},
      {{"--max_time=nan"}, {"--max_time=nan"}},
      {{"--max_time=inf"}, {"--max_time=inf"}},
      {{"--max_step_time=-2"}, {"--max_step_time=-2"}},
      {{"--warmup_iters=-2"}, {"--warmup_iters=-2"}},
      {{"--check=maybe"}, {"--check=maybe", "on, off"}},
      {{"--reference=h900"}, {"--reference=h900", "a100-sxm4-40gb", "h200"}},
      {{"--benchmark_min_time=0x"}, {"--benchmark_min_time=0x"}},
      {{"--benchmark_min_time=-3x"}, {"--benchmark_min_time=-3x"}},
      {{"--benchmark_min_time=fast"}, {"--benchmark_min_time=fast"}},
      {{"--benchmark_repetitions=0"}, {"--benchmark_repetitions=0"}},
      {{"--benchmark_repetitions=-5"}, {"--benchmark_repetitions=-5"}},
      {{"--benchmark_out_format=xml"}, {"--benchmark_out_format=xml", "json, csv"}},
      {{"--benchmark_format=xml"}, {"--benchmark_format=xml", "console, json, csv"}},
      {{"--benchmark_color=purple"}, {"--benchmark_color=purple", "auto, true, false"}},
      {{"--benchmark_list_tests=maybe"}, {"--benchmark_list_tests=maybe", "true or false"}},
      {{"--benchmark_enable_random_interleaving=perhaps"}, {"perhaps", "true or false"}},
      {{"--benchmark_report_aggregates_only=2"}, {"--benchmark_report_aggregates_only=2", "true or false"}},
      {{"--benchmark_context=a"}, {"--benchmark_context=a", "KEY=VALUE"}},
      {{"--benchmark_time_unit=minutes"}, {"--benchmark_time_unit=minutes", "ns, us, ms, s"}},
      {{"-benchmark_repetitions=9"}, {"-benchmark_repetitions=9", "two dashes", "--benchmark_repetitions=9"}},
      {{"-help"}, {"two dashes"}},
      {{"--wait_quiet=-1"}, {"--wait_quiet=-1"}},
      {{"--axis=n=256:4096"}, {"256:4096", "256:4096:x2"}},
      {{"--axis=n=256:4096:x1"}, {"256:4096:x1"}},
      {{"--axis=n=4096:256:x2"}, {"4096:256:x2"}},
      {{"--axis=n=1:100000:+1"}, {"1:100000:+1", "1000 values"}},
      {{"--benchmark_perf_counters=CYCLES"}, {"--benchmark_perf_counters"}},
      {{"--inject_delay=-0.1"}, {"--inject_delay=-0.1"}},
      {{"--roof_share=1"}, {"--roof_share=1"}},
      {{"--list_axes=perhaps"}, {"--list_axes=perhaps"}},
      {{"--describe=xml"}, {"--describe=xml", "json"}},
      {{"--describe="}, {"--describe=: expected json"}},
      {{"--"}, {"'--'"}},
  };
  for (const Bad& bad : table) {
    for (const std::string& said : bad.said) EXPECT_THAT(Error(bad.arguments), HasSubstr(said));
  }
}

TEST(OptionsTest, MoreThreadsThanProcessorsAreAskedForTwice) {
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
