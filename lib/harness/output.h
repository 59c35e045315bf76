// Sends the library's rows, corrected, to the console and to a file.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/harness/session.h"
#include "lib/harness/whole_file.h"

namespace roofbench {

// The one reporter that the library sees. JSON goes to two files: the one that was named, and <name>.comparable.json
// without the rows that were skipped or failed, which Google Benchmark's compare.py takes for gains of 100 %. The table
// appears on standard output row by row; JSON and CSV appear when they are whole, as files do.
class Output : public benchmark::BenchmarkReporter {
 public:
  explicit Output(const Session& session);

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
    std::unique_ptr<WholeFile> file = {};  // nullptr: standard output
    bool errors = true;                    // whether rows of cases without a result belong to it
  };

  absl::Status AddFile(const std::string& path, bool errors);

  const Session& session_;
  std::vector<Sink> sinks_;
  std::ostringstream whole_;  // JSON or CSV for standard output
  absl::Status status_;
};

// "out.json" -> "out.comparable.json".
std::string ComparablePath(const std::string& path);

}  // namespace roofbench
