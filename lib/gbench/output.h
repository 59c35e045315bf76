// SPDX-License-Identifier: Apache-2.0
// Sends the library's rows, corrected, to the console and to a file.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/files.h"
#include "lib/gbench/options.h"
#include "lib/gbench/reporters/console_reporter.h"
#include "lib/run/session.h"
#include "lib/run/shared_state.h"

namespace roofbench {

// The one reporter that the library sees. JSON goes to two files: the one that was named, and <name>.comparable.json
// without the rows that were skipped or failed, which Google Benchmark's compare.py takes for gains of 100 %. The table
// appears on standard output row by row; JSON and CSV appear when they are whole, as files do.
class Output : public benchmark::BenchmarkReporter {
 public:
  // `state` knows the rows that an earlier process of this run has shown, and is told of each that this one shows.
  Output(const Session& session, const Options& options, SharedState& state);

  // Opens what the options name. Unavailable with the path, the reason and the way out if a file cannot be written.
  absl::Status Open();

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

  // Whether everything reached the disk; known after Finalize.
  const absl::Status& status() const { return status_; }

 private:
  struct Sink {
    std::unique_ptr<benchmark::BenchmarkReporter> reporter;
    std::unique_ptr<AtomicFile> file = {};  // nullptr: standard output
    bool errors = true;                     // whether rows of cases without a result belong to it
  };

  absl::Status AddFile(const std::string& path, bool errors);

  // What the cases leave behind for people to read, a line a case.
  absl::Status WriteTexts();

  // Rows on the console, for a person: each once, whatever process ends in between.
  void Show(const std::vector<Run>& rows);

  const Session& session_;
  const Options& options_;
  SharedState& state_;
  std::vector<bool> shown_before_;         // by an earlier process: by place in the plan
  std::unique_ptr<ConsoleTable> console_;  // nullptr: standard output gets JSON or CSV
  std::vector<Sink> sinks_;
  std::ostringstream whole_;           // JSON or CSV for standard output
  std::unique_ptr<AtomicFile> texts_;  // nullptr: nobody asked for them
  absl::Status status_;
};

// "out.json" -> "out.comparable.json".
std::string ComparablePath(const std::string& path);

}  // namespace roofbench
