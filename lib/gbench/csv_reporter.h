// SPDX-License-Identifier: Apache-2.0
// Rows with the union of all counters as columns.
#pragma once

#include <benchmark/benchmark.h>

#include <set>
#include <string>
#include <vector>

namespace roofbench {

// The library's own CSV reporter stops the program at a counter that its first case lacked; this one keeps all rows and
// writes them at the end.
class CsvTable : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

 private:
  std::vector<Run> runs_;
  std::set<std::string> counters_;
};

}  // namespace roofbench
