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

// The one reporter that the library sees; it takes no figures from the library, only which case has ended. JSON goes to
// two files: the named one, and <name>.comparable.json without the rows that were skipped or failed, which Google
// Benchmark's compare.py takes for gains of 100 %. The table appears on standard output row by row; JSON and CSV appear
// when they are complete, as files do.
class Output : public benchmark::BenchmarkReporter {
 public:
  // `state` has the cases that an earlier process of this run has shown, and gets each that this one shows.
  Output(const Session& session, const Options& options, SharedState& state);

  // Opens the files of the options. Unavailable with the path, the reason and the way out if one cannot be written.
  absl::Status Open();

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

  // Whether everything reached the disk; valid after Finalize.
  const absl::Status& status() const { return status_; }

 private:
  struct Sink {
    std::unique_ptr<RowWriter> writer;
    std::unique_ptr<AtomicFile> file = {};  // nullptr: standard output
    bool errors = true;                     // whether it gets rows with an error
  };

  absl::Status AddFile(const std::string& path, bool errors);
  // On the console, where an earlier process has not shown the case.
  void Show(const std::vector<Row>& rows);
  // The texts of the cases, a line each.
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
