// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/csv_reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace roofbench {
namespace {

TEST(CsvTable, NoCellIsAFormula) {
  CsvTable table;
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

}  // namespace
}  // namespace roofbench
