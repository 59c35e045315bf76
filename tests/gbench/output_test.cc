// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/suite/test_family.h"

namespace roofbench {
namespace {

using testing::HasSubstr;

class RowWritersTest : public testing::Test {
 protected:
  // The row of a repetition without counters.
  Row RowOf(std::string name) {
    return {.of = KeyOf({&family_, family_.Points(Suite::kQuick)[0], std::move(name)}),
            .index = rows_++,
            .outcome = &outcome_,
            .seconds = 1.5};
  }
  std::string Csv(const std::vector<Row>& rows) {
    std::ostringstream text;
    CsvTable table(text, TimeUnitNamed("ms"));
    table.Add(rows);
    table.Finish();
    return text.str();
  }

  FakeDevice device_;
  Family family_ = TestFamily(device_, 1e-3);
  Family other_ = TestFamily(device_, 1e-3, "other").Axis({.name = "batch", .default_value = "2"});
  std::size_t rows_ = 0;
  Outcome outcome_;
};

TEST_F(RowWritersTest, NoCellIsAFormula) {
  Row row = RowOf("@case");
  row.label = "+label \"quoted\"";
  row.counters = {{"=cmd|' /C calc'!A0", 1}, {"FLOP/s", -2}};
  const std::string text = Csv({row});
  EXPECT_THAT(text, HasSubstr(R"(,"'=cmd|' /C calc'!A0","FLOP/s")"));
  EXPECT_THAT(text, HasSubstr(R"("'@case",1,1500,)"));
  EXPECT_THAT(text, HasSubstr(R"("'+label ""quoted""")"));
  EXPECT_THAT(text, HasSubstr(",1,-2\n")) << "a number is one";
}

TEST_F(RowWritersTest, AxesAreColumnsBeforeTheCounters) {
  Row one = RowOf("one");
  one.counters = {{"roof", 0.5}};
  Row other{.of = KeyOf({&other_, other_.Points(Suite::kQuick)[0], "other"}), .index = 1, .outcome = &outcome_};
  other.counters = {{"roof", 0.25}, {"n", 7}};  // called like an axis of others
  const std::string text = Csv({one, other});
  EXPECT_THAT(text, HasSubstr(R"(,"impl","n","cache","batch","roof")"));
  EXPECT_THAT(text, HasSubstr(",\"good\",16,\"cold\",,0.5\n"));
  EXPECT_THAT(text, HasSubstr(",\"good\",7,\"cold\",2,0.25\n"));
}

TEST_F(RowWritersTest, JsonIsGoogleBenchmarksWithAxes) {
  Row row = RowOf("case");
  row.counters = {{"roof", 0.5}};
  row.label = "converged";
  std::ostringstream text;
  JsonRows rows(text, TimeUnitNamed("us"));
  rows.Add({row, row});
  const std::string expected = R"(    {
      "name": "case",
      "family_index": 0,
      "per_family_instance_index": 0,
      "impl": "good",
      "n": 16,
      "cache": "cold",
      "run_name": "case",
      "run_type": "iteration",
      "repetitions": 1,
      "repetition_index": 0,
      "threads": 1,
      "iterations": 1,
      "real_time": 1500000.0,
      "cpu_time": 0.0,
      "time_unit": "us",
      "roof": 0.5,
      "label": "converged"
    })";
  EXPECT_EQ(text.str(), expected + ",\n" + expected);
}

}  // namespace
}  // namespace roofbench
