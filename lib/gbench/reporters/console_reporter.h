// SPDX-License-Identifier: Apache-2.0
// The table on the console: one line a case, or a few where the terminal is narrow; none is wider than the terminal.
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

#include "lib/run/session.h"

namespace roofbench {

class ConsoleTable : public benchmark::BenchmarkReporter {
 public:
  ConsoleTable(const Session& session, bool color, std::size_t width);

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  // Goes on after rows that stand on the console already.
  void GoOnAfter(const std::vector<Run>& runs);

 private:
  const PlannedCase& CaseOf(const Run& run) const;
  void PrintHeading(const std::string& family);
  void PrintError(const std::string& label, const std::string& message);
  void PrintRow(const std::string& label, const Run& run, const Outcome* outcome);
  void PrintSplit(const std::vector<Run>& runs);
  // Leaves the line where the figures begin: behind a short label, below a long one.
  void PrintLabel(const std::string& label);
  std::string Paint(const std::string& text, const char* code) const;

  const Session& session_;
  bool color_;
  std::size_t width_;        // of the terminal, in columns
  std::size_t label_width_;  // of the first column
  std::string family_;       // whose heading stands above
};

// Whether to colour: never where NO_COLOR is set; else as --benchmark_color says, or where standard output is a
// terminal.
bool WantsColor(const std::string& flag);

}  // namespace roofbench
