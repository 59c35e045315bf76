// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/reporters/csv_reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace roofbench {
namespace {

TEST(CsvTable, NoCellIsAFormula) {
  CsvTable table([](const LibraryRun&) { return AxisValues{}; });
  std::ostringstream text;
  table.SetOutputStream(&text);
  benchmark::BenchmarkReporter::Run run;
  run.run_name.function_name = "@case";
  run.report_label = "+label \"quoted\"";
  run.counters["=cmd|' /C calc'!A0"] = 1;
  run.counters["FLOP/s"] = -2;
  table.ReportRuns({run});
  table.Finalize();
  EXPECT_THAT(text.str(), testing::HasSubstr(R"(,"'=cmd|' /C calc'!A0","FLOP/s")"));
  EXPECT_THAT(text.str(), testing::HasSubstr(R"("'@case")"));
  EXPECT_THAT(text.str(), testing::HasSubstr(R"("'+label ""quoted""")"));
  EXPECT_THAT(text.str(), testing::HasSubstr(",1,-2\n")) << "a number is one";
}

TEST(CsvTable, AxesAreColumnsBeforeTheCounters) {
  CsvTable table([](const LibraryRun& run) {
    AxisValues axes = {{"impl", "eager"}, {"n", "16"}};
    if (run.run_name.function_name == "other") axes = {{"batch", "2"}};
    return axes;
  });
  std::ostringstream text;
  table.SetOutputStream(&text);
  benchmark::BenchmarkReporter::Run run;
  run.counters["roof"] = 0.5;
  run.run_name.function_name = "one";
  table.ReportRuns({run});
  run.run_name.function_name = "other";
  run.counters["n"] = 7;  // called like an axis of others
  table.ReportRuns({run});
  table.Finalize();
  EXPECT_THAT(text.str(), testing::HasSubstr(R"(,"impl","n","batch","roof")"));
  EXPECT_THAT(text.str(), testing::HasSubstr(",\"eager\",16,,0.5\n"));
  EXPECT_THAT(text.str(), testing::HasSubstr(",,7,2,0.5\n"));
}

}  // namespace
}  // namespace roofbench
