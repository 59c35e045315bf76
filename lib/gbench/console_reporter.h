// SPDX-License-Identifier: Apache-2.0
// The table on the console: one line a case within 120 columns.
#pragma once

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "lib/run/session.h"

namespace roofbench {

class ConsoleTable : public benchmark::BenchmarkReporter {
 public:
  ConsoleTable(const Session& session, bool color) : session_(session), color_(color) {}

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  // Goes on after rows that stand on the console already.
  void GoOnAfter(const std::vector<Run>& runs);

 private:
  const PlannedCase& CaseOf(const Run& run) const;
  void PrintHeading(const std::string& family);
  void PrintError(const std::string& label, const std::string& message);
  void PrintRow(const std::string& label, const Run& run, const Outcome* outcome);
  std::string Paint(const std::string& text, const char* code) const;

  const Session& session_;
  bool color_;
  std::string family_;  // whose heading stands above
};

// Whether to colour: never where NO_COLOR is set; else as --benchmark_color says, or where standard output is a
// terminal.
bool WantsColor(const std::string& flag);

}  // namespace roofbench
