// SPDX-License-Identifier: Apache-2.0
// Where the results of a run go: standard output, a file, and the texts of cases.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <sstream>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/files.h"
#include "lib/gbench/console_table.h"
#include "lib/gbench/suite_options.h"
#include "lib/run/session.h"
#include "lib/run/supervisor.h"

namespace roofbench {

// The console's table as a reporter: a case at a time, and none twice, though one process of a run may follow another.
class ConsoleReporter : public benchmark::BenchmarkReporter {
 public:
  ConsoleReporter(const Session& session, const SuiteOptions& options, SharedState& state);
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override;

 private:
  const Session& session_;
  SharedState& state_;
  std::vector<bool> shown_before_;  // by an earlier process: by index in the plan
  ConsoleTable table_;
};

// Reporters of the library and their outputs. JSON and CSV are whole or missing, on standard output as in a file.
class Output {
 public:
  // `state` lists the cases that an earlier process of this run has printed, and records those printed here.
  Output(const Session& session, const SuiteOptions& options, SharedState& state);

  // Checks that the files of the options can be written. Errors as AtomicFile::Open.
  absl::Status Open();

  benchmark::BenchmarkReporter* display() const { return display_.get(); }
  benchmark::BenchmarkReporter* file() const { return file_reporter_.get(); }  // nullptr: none

  // Writes what the reporters have made, and the text outputs of the cases. The first error is returned.
  absl::Status Finish();

 private:
  // Each line with the name of its case.
  absl::Status WriteTexts();

  const Session& session_;
  const SuiteOptions& options_;
  std::ostringstream whole_;  // JSON or CSV for standard output
  std::unique_ptr<benchmark::BenchmarkReporter> display_;
  AtomicFile file_;
  std::unique_ptr<benchmark::BenchmarkReporter> file_reporter_;
  AtomicFile texts_;
};

}  // namespace roofbench
