// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/options.h"

#include <absl/flags/reflection.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "lib/gbench/arguments.h"
#include "lib/gbench/help.h"
#include "lib/kernels/threading/thread_pool.h"

namespace roofbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class OptionsTest : public testing::Test {
 protected:
  static Options Parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "roofbench");
    const auto options = ParseOptions(arguments);
    EXPECT_TRUE(options.ok()) << options.status();
    return options.ok() ? *options : Options{};
  }
  static std::string Error(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "roofbench");
    const auto options = ParseOptions(arguments);
    return options.ok() ? "no error" : std::string(options.status().message());
  }

 private:
  absl::FlagSaver saver_;  // flags are global: each test starts from the defaults
};

TEST_F(OptionsTest, SuiteIsQuickUnlessAFilterSaysWhatIsWanted) {
  EXPECT_EQ(Parse({}).suite, Suite::kQuick);
  EXPECT_EQ(Parse({"--benchmark_filter=matmul"}).suite, Suite::kFull);
  EXPECT_EQ(Parse({"--benchmark_filter=matmul", "--suite=standard"}).suite, Suite::kStandard);
}

TEST_F(OptionsTest, MinTimeIsABudgetOrACount) {
  EXPECT_EQ(Parse({"--benchmark_min_time=0.5"}).sampling.max_time, 0.5);
  EXPECT_EQ(Parse({"--benchmark_min_time=2s"}).sampling.max_time, 2);
  const Options exact = Parse({"--benchmark_min_time=20x"});
  EXPECT_TRUE(exact.sampling.exact_samples);
  EXPECT_EQ(exact.sampling.max_samples, 20);
}

TEST_F(OptionsTest, LibraryNeverSeesWhatWeReadForIt) {
  const Options options = Parse({"--benchmark_min_time=20x", "--benchmark_out=a.json", "--benchmark_filter=x",
                                 "--benchmark_repetitions=3", "--benchmark_context=a=b"});
  EXPECT_THAT(options.library_arguments, testing::ElementsAre("roofbench", "--benchmark_repetitions=3"));
  EXPECT_THAT(options.context, testing::ElementsAre(testing::Pair("a", "b")));
  EXPECT_EQ(options.out, "a.json");
}

TEST_F(OptionsTest, EnvironmentComesFirstAndTheCommandLineWins) {
  setenv("BENCHMARK_FILTER", "copy", 1);
  setenv("BENCHMARK_MIN_TIME", "3x", 1);
  const Options options = Parse({"--benchmark_filter=read"});
  EXPECT_EQ(options.filter, "read");
  EXPECT_EQ(options.sampling.max_samples, 3);
  EXPECT_EQ(std::getenv("BENCHMARK_FILTER"), nullptr);
  EXPECT_EQ(std::getenv("BENCHMARK_MIN_TIME"), nullptr);
}

TEST_F(OptionsTest, AnOldNameOfAFlagIsTakenWithANote) {
  const Options options = Parse({"--plant_slowdown=0.5"});
  EXPECT_EQ(options.injected_delay, 0.5);
  EXPECT_THAT(options.notes, testing::ElementsAre("--plant_slowdown is called --inject_delay now"));
  EXPECT_EQ(options.measuring_flags, Parse({"--inject_delay=0.5"}).measuring_flags) << "it is the same run";
}

TEST_F(OptionsTest, ATimeLimitNeedsAParentAndNoJournal) {
  EXPECT_EQ(Parse({"--case_timeout=5"}).case_timeout, 5);
  EXPECT_THAT(Error({"--case_timeout=5", "--supervise=false"}), HasSubstr("--supervise"));
  EXPECT_THAT(Error({"--case_timeout=0", "--resume"}), HasSubstr("--resume needs --journal"));
}

TEST_F(OptionsTest, AxesAreRepeatable) {
  const Options options = Parse({"--axis=matmul.n=3000,5", "--axis=dtype=bf16"});
  ASSERT_EQ(options.axes.size(), 2);
  EXPECT_EQ(options.axes[0].family, "matmul");
  EXPECT_EQ(options.axes[0].axis, "n");
  EXPECT_THAT(options.axes[0].values, testing::ElementsAre("3000", "5"));
  EXPECT_EQ(options.axes[1].family, "");
}

TEST_F(OptionsTest, AnAxisTakesRanges) {
  const Options options = Parse({"--axis=n=256:4096:x2,5000", "--axis=m=100:350:+100", "--axis=k=7:7:x2"});
  ASSERT_EQ(options.axes.size(), 3);
  EXPECT_THAT(options.axes[0].values, testing::ElementsAre("256", "512", "1024", "2048", "4096", "5000"));
  EXPECT_THAT(options.axes[1].values, testing::ElementsAre("100", "200", "300"));
  EXPECT_THAT(options.axes[2].values, testing::ElementsAre("7"));
  const Options last = Parse({"--axis=n=4611686018427387904:9223372036854775807:x2"});
  EXPECT_THAT(last.axes[0].values, testing::ElementsAre("4611686018427387904")) << "the next one is no number";
}

TEST_F(OptionsTest, OtherSpellingsOfFlags) {
  EXPECT_EQ(Parse({"--filter=matmul"}).filter, "matmul");
  EXPECT_EQ(Parse({"--max-time=0.5"}).sampling.max_time, 0.5);
  EXPECT_EQ(Parse({"--filter=a"}).measuring_flags, Parse({"--benchmark_filter=a"}).measuring_flags);
  EXPECT_TRUE(Parse({"-h"}).help);
  EXPECT_TRUE(Parse({"--version"}).version);
}

TEST_F(OptionsTest, CompilersTuneWhereTheyAreAskedTo) {
  EXPECT_FALSE(Parse({}).compile.coordinate_descent_tuning);
  EXPECT_TRUE(Parse({"--coordinate_descent_tuning"}).compile.coordinate_descent_tuning);
}

TEST_F(OptionsTest, ListsAsTextOrAsJson) {
  EXPECT_TRUE(Parse({"--benchmark_list_tests"}).list_tests);
  EXPECT_FALSE(Parse({"--benchmark_list_tests"}).list_json);
  EXPECT_TRUE(Parse({"--benchmark_list_tests=json"}).list_tests);
  EXPECT_TRUE(Parse({"--benchmark_list_tests=json"}).list_json);
}

TEST_F(OptionsTest, AggregatesForTheScreenAreNoBusinessOfTheLibrary) {
  const Options options = Parse({"--benchmark_display_aggregates_only", "--benchmark_repetitions=3"});
  EXPECT_TRUE(options.display_aggregates_only);
  EXPECT_THAT(options.library_arguments, testing::ElementsAre("roofbench", "--benchmark_repetitions=3"));
}

TEST_F(OptionsTest, TheCommandLineIsKeptAsAShellTakesIt) {
  EXPECT_EQ(Parse({"--filter=a b"}).command_line, "roofbench '--filter=a b'");
  EXPECT_EQ(CommandLine({"x", "it's", ""}), "x 'it'\\''s' ''");
}

// Bad command lines are a table of tests/benchmarks/refusals_test.cc, which has the families.

TEST_F(OptionsTest, MoreThreadsThanProcessorsAreAskedForTwice) {
  const int processors = kernels::Processors();
  const std::string all = absl::StrCat("--threads=", processors);
  const std::string more = absl::StrCat("--threads=", processors + 1);
  EXPECT_EQ(Parse({all}).threads, processors);
  EXPECT_THAT(Error({more}),
              AllOf(HasSubstr(more), HasSubstr(absl::StrCat("above the ", processors)), HasSubstr("--oversubscribe")));
  EXPECT_EQ(Parse({more, "--oversubscribe"}).threads, processors + 1);
}

TEST_F(OptionsTest, HelpNamesEveryFlagOnce) {
  const std::string help = HelpText();
  for (const char* flag :
       {"--suite=", "--axis=", "--device=", "--threads=", "--max_step_time=", "--list_axes",
        "--warmup_iters=", "--min_samples=", "--max_samples=", "--max_time=", "--check=", "--seed=", "--reference="}) {
    const std::size_t at = help.find(std::string("\n  ") + flag);
    ASSERT_NE(at, std::string::npos) << flag;
    EXPECT_EQ(help.find(std::string("\n  ") + flag, at + 1), std::string::npos) << flag;
  }
  EXPECT_THAT(help, AllOf(HasSubstr("Examples"), HasSubstr("[a100-sxm4-40gb]")));
}

}  // namespace
}  // namespace roofbench
