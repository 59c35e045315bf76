// SPDX-License-Identifier: Apache-2.0
// Writes the rows of finished cases to the console and to files.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/files.h"
#include "lib/gbench/console_table.h"
#include "lib/gbench/options.h"
#include "lib/results/row.h"
#include "lib/run/session.h"
#include "lib/run/supervisor.h"

namespace roofbench {

class RowWriter {
 public:
  virtual ~RowWriter() = default;
  virtual void Begin(const benchmark::BenchmarkReporter::Context& context) = 0;
  virtual void Add(const std::vector<Row>& rows) = 0;
  virtual void Finish() = 0;
};

// Google Benchmark's JSON: its header, and rows of RowJson.
class JsonRows : public RowWriter {
 public:
  JsonRows(std::ostream& out, TimeUnit unit);
  void Begin(const benchmark::BenchmarkReporter::Context& context) override;
  void Add(const std::vector<Row>& rows) override;
  void Finish() override;

 private:
  std::ostream& out_;
  const TimeUnit unit_;
  benchmark::JSONReporter header_;
  bool is_empty_ = true;
};

// A table with the union of all axes and counters as columns, written at the end. The library's own CSV reporter stops
// the program at a counter that its first case did not have.
class CsvTable : public RowWriter {
 public:
  CsvTable(std::ostream& out, TimeUnit unit);
  void Begin(const benchmark::BenchmarkReporter::Context& /*context*/) override {}
  void Add(const std::vector<Row>& rows) override;
  void Finish() override;

 private:
  std::ostream& out_;
  const TimeUnit unit_;
  std::vector<Row> rows_;
};

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

// Checks that all outputs are different files, and that none has the name of a file that the run creates alongside
// another output: <out>.comparable.json, <journal>.previous, names ending in .part. InvalidArgument names both files
// and the remedy.
absl::Status CheckOutputNames(const Options& options);

}  // namespace roofbench
