// SPDX-License-Identifier: Apache-2.0
// Rows with the union of all axes and counters as columns.
#pragma once

#include <benchmark/benchmark.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/gbench/reporters/axis_columns.h"

namespace roofbench {

// The library's own CSV reporter stops the program at a counter that its first case lacked; this one keeps all rows and
// writes them at the end.
class CsvTable : public benchmark::BenchmarkReporter {
 public:
  explicit CsvTable(AxesOfRow axes_of) : axes_of_(std::move(axes_of)) {}

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

 private:
  AxesOfRow axes_of_;
  std::vector<Run> runs_;
  std::vector<std::string> axes_;  // in the order of their appearance
  std::set<std::string> counters_;
};

}  // namespace roofbench
