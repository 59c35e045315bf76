// SPDX-License-Identifier: Apache-2.0
// Writes the rows of finished cases to the console and to files.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/files.h"
#include "lib/gbench/console_table.h"
#include "lib/gbench/options.h"
#include "lib/gbench/row_writers.h"
#include "lib/run/session.h"
#include "lib/run/shared_state.h"

namespace roofbench {

// The only reporter known to the library; it uses the library only to learn which case has ended. JSON goes to two
// files: the named one, and <name>.comparable.json without skipped and failed rows, which Google Benchmark's compare.py
// would show as gains of 100 %. The table is printed row by row; JSON and CSV are written when complete, like files.
class Output : public benchmark::BenchmarkReporter {
 public:
  // `state` lists the cases that an earlier process of this run has printed, and records those printed here.
  Output(const Session& session, const Options& options, SharedState& state);

  // Opens the files of the options. Returns Unavailable with the path, the reason and the remedy if one cannot be
  // written.
  absl::Status Open();

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

  // Whether all output reached the disk; valid after Finalize.
  const absl::Status& status() const { return status_; }

 private:
  struct Sink {
    std::unique_ptr<RowWriter> writer;
    std::unique_ptr<AtomicFile> file = {};  // nullptr: standard output
    bool errors = true;                     // whether it gets rows with an error
  };

  absl::Status AddFile(const std::string& path, bool errors);
  // Prints a case unless an earlier process has printed it.
  void Show(const std::vector<Row>& rows);
  // Writes the text outputs of the cases, each line with the name of its case.
  absl::Status WriteTexts();

  const Session& session_;
  const Options& options_;
  SharedState& state_;
  std::vector<bool> shown_before_;         // by an earlier process: by index in the plan
  std::unique_ptr<ConsoleTable> console_;  // nullptr: standard output gets JSON or CSV
  std::vector<Sink> sinks_;
  std::ostringstream whole_;           // JSON or CSV for standard output
  std::unique_ptr<AtomicFile> texts_;  // nullptr without --tokens_out
  absl::Status status_;
};

// "out.json" -> "out.comparable.json".
std::string ComparablePath(const std::string& path);

}  // namespace roofbench
