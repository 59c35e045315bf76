// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/console_table.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/text.h"

namespace roofbench {
namespace {

using testing::ElementsAre;

TEST(ConsoleTable, ColumnsSaysTheWidth) {
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  unsetenv("COLUMNS");
  EXPECT_EQ(TerminalWidth(file), 120) << "a file has none";
  setenv("COLUMNS", "100", 1);
  EXPECT_EQ(TerminalWidth(file), 100);
  setenv("COLUMNS", "3", 1);
  EXPECT_EQ(TerminalWidth(file), 40);
  setenv("COLUMNS", "many", 1);
  EXPECT_EQ(TerminalWidth(file), 120);
  unsetenv("COLUMNS");
  close(file);
}

TEST(ConsoleTable, ATerminalHasItsOwnWidth) {
  unsetenv("COLUMNS");
  const int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) GTEST_SKIP() << "there is no /dev/ptmx";
  const winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  EXPECT_EQ(TerminalWidth(terminal), 80);
  close(terminal);
}

TEST(ConsoleTable, NamesBreakBeforeASlash) {
  EXPECT_THAT(NameLines("  short", 20, "    "), ElementsAre("  short"));
  EXPECT_THAT(NameLines("  impl:eager/dtype:fp32/n:1024", 20, "    "),
              ElementsAre("  impl:eager", "    /dtype:fp32", "    /n:1024"));
  for (const std::string& line : NameLines(std::string(100, 'x'), 20, "    ")) EXPECT_LE(line.size(), 20);
}

// A row of these counters, in 120 columns.
std::string Shown(const std::map<std::string, double>& counters, std::vector<std::string> noise = {},
                  double others_share = 0, int64_t samples = 0) {
  ConsoleTable::Run run;
  run.run_name.function_name = "test/n:16";
  run.repetition_index = 0;
  run.real_accumulated_time = 1e-3;
  for (const auto& [name, value] : counters) run.counters[name] = value;
  std::deque<Outcome> outcomes(1);
  outcomes.front().noise = std::move(noise);
  outcomes.front().conditions.others_share = others_share;
  outcomes.front().summary.samples = samples;
  std::ostringstream text;
  ConsoleTable(text, *hardware::FindDatasheet("a100-sxm4-40gb"), /*color=*/false, /*width=*/120).Add({run}, outcomes);
  return text.str();
}

// A wrong formula is a fault; what libraries add to a tiny case is not.
TEST(ConsoleTable, MemoryFarFromItsPredictionIsNoted) {
  const auto shown = [](double taken, double predicted) {
    return Shown({{"peak_mem", taken}, {"predicted_mem", predicted}});
  };
  EXPECT_THAT(shown(300e6, 100e6), testing::HasSubstr("mem 3.00x predicted"));
  EXPECT_THAT(shown(100e6, 300e6), testing::HasSubstr("mem 0.33x predicted"));
  EXPECT_THAT(shown(3e6, 1e6), testing::Not(testing::HasSubstr("mem"))) << "a tiny case";
  EXPECT_THAT(shown(10.5e9, 10e9), testing::Not(testing::HasSubstr("mem"))) << "within a tenth";
}

TEST(ConsoleTable, AGpuThatIsLaunchBoundOrCappedHasItsFigure) {
  EXPECT_THAT(Shown({{"launch_bound", 1}, {"kernel_ms", 0.012}}), testing::HasSubstr("launch_bound, kernels 12.0 µs"));
  EXPECT_THAT(
      Shown({{"new_values", 1}, {"unseen", 0.98}, {"untimed_ms", 0.6}}),
      testing::HasSubstr("new values for each step, prepares for 600 µs, untimed, 98.0 % of the result too small "
                         "to be checked"));
  EXPECT_THAT(Shown({{"power_capped", 1}, {"clock_mhz", 1410}}), testing::HasSubstr("power_capped at 1410 MHz"));
  EXPECT_THAT(Shown({{"power_capped", 0}, {"clock_mhz", 1410}}), testing::Not(testing::HasSubstr("power_capped")));
}

TEST(ConsoleTable, FewSamplesAreNoted) {
  const auto shown = [](int64_t samples) { return Shown({}, {}, 0, samples); };
  EXPECT_THAT(shown(1), testing::HasSubstr("1 sample"));
  EXPECT_THAT(shown(5), testing::HasSubstr("5 samples"));
  EXPECT_THAT(shown(6), testing::Not(testing::HasSubstr("sample")));
}

TEST(ConsoleTable, ACollectiveHasItsBandwidthsAndRanks) {
  EXPECT_THAT(
      Shown({{"algbw", 2e9}, {"busbw", 3e9}, {"wirebw", 4e9}, {"rank_skew_ms", 0.25}, {"last_rank", 3}}),
      testing::HasSubstr("    algbw 2.00 GB/s, busbw 3.00 GB/s, wirebw 4.00 GB/s, skew 250 µs (rank 3 last)\n"));
  EXPECT_THAT(Shown({{"link_alpha_ms", 0.02}, {"linkbw", 5e9}}),
              testing::HasSubstr("link 20.0 µs + bytes/(5.00 GB/s)"));
}

// What they are run for is in their line, not only in their file.
TEST(ConsoleTable, AScoreAndAGenerationHaveTheirAnswer) {
  EXPECT_THAT(Shown({{"perplexity", 12.34}, {"kl_mean", 0.00212}, {"top1_agreement", 0.985}, {"tokens/s", 98.1}}),
              testing::HasSubstr("    98.1 tokens/s, perplexity 12.3, kl_mean 0.00212 nats, top1_agreement 98.5 %\n"));
  EXPECT_THAT(Shown({{"ttft_ms", 80}, {"itl_ms", 10}, {"tokens/s", 100}, {"acceptance", 0.75}, {"speedup", 1.38}}),
              testing::HasSubstr("    ttft 80.0 ms, itl 10.0 ms, 100 tokens/s, acceptance 75.0 %, speedup 1.38\n"));
  EXPECT_THAT(Shown({{"overhead_ns", 42}}), testing::HasSubstr("    overhead 42.0 ns\n"));
}

// A busy machine widens the interval beyond its column.
TEST(ConsoleTable, NotesAfterAWideFigureFitTheWidth) {
  for (const double ci : {0.01, 1234.5}) {
    const std::string text = Shown({{"noisy", 1}, {"ci", ci}}, {"jumps"});
    EXPECT_THAT(text, testing::HasSubstr("noisy (jumps)"));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(DisplayWidth(line), 120) << line;
  }
}

TEST(ConsoleTable, ATimeThatCannotBeJudgedHasFewWords) {
  const std::map<std::string, double> counters = {
      {"noisy", 1}, {"disturbed", 1}, {"peak_mem", 300e6}, {"predicted_mem", 100e6}};
  const std::vector<std::string> noise = {"interval", "drift", "others"};
  const std::string judged = Shown(counters, noise, 0.2);
  EXPECT_THAT(judged, testing::HasSubstr("noisy (interval, drift, others), disturbed, mem 3.00x predicted\n"));
  const std::string not_judged = Shown(counters, noise, 0.84);
  EXPECT_THAT(not_judged, testing::EndsWith(" others 84 %, mem 3.00x predicted\n"));
  for (const char* word : {"noisy", "disturbed"}) EXPECT_THAT(not_judged, testing::Not(testing::HasSubstr(word)));
}

}  // namespace
}  // namespace roofbench
