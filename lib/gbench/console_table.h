// SPDX-License-Identifier: Apache-2.0
// The console table: one line per case, or several on a narrow terminal; never wider than the terminal.
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <deque>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "lib/hardware/datasheet.h"
#include "lib/results/outcome.h"

namespace roofbench {

// Columns of the terminal of a file descriptor: COLUMNS, else the terminal's width, else 120.
std::size_t TerminalWidth(int file);

// Splits a name into lines of at most `width` columns, preferably before a slash; continuation lines begin with
// `indent`.
std::vector<std::string> NameLines(std::string name, std::size_t width, std::string_view indent);

// False if NO_COLOR is set; otherwise as --benchmark_color says, or whether standard output is a terminal.
bool WantsColor(const std::string& flag);

class ConsoleTable {
 public:
  using Run = benchmark::BenchmarkReporter::Run;

  ConsoleTable(std::ostream& out, const hardware::Datasheet& reference, bool color, std::size_t width);

  // Rows of one case, repetitions or aggregates, with the outcomes of its repetitions.
  void Add(const std::vector<Run>& runs, const std::deque<Outcome>& outcomes);
  // Call this for a case that is already on the console.
  void ContinueAfter(const std::string& name);

 private:
  void PrintHeading(const std::string& family);
  void PrintError(const std::string& label, const std::string& message);
  // `outcome`: nullptr for an aggregate.
  void PrintRow(const std::string& label, const Run& run, const Outcome* outcome);
  void PrintSplit(const std::vector<double>& seconds);
  // Ends on the line of the figures: the label's own line if it is short, otherwise the next.
  void PrintLabel(const std::string& label);
  std::string Paint(const std::string& text, const char* code) const;

  std::ostream& out_;
  const hardware::Datasheet& reference_;
  bool color_;
  std::size_t width_;        // of the terminal, in columns
  std::size_t label_width_;  // of the first column
  std::string family_;       // of the last heading
};

}  // namespace roofbench
