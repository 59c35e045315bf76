// Sends the library's rows, corrected, to the console and to a file.
#pragma once

#include <benchmark/benchmark.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/harness/session.h"

namespace roofbench {

// The one reporter that the library sees. The file is written beside its place and renamed when it is whole, so that a
// reader never finds half a file and a failed run never costs an old one.
class Output : public benchmark::BenchmarkReporter {
 public:
  explicit Output(const Session& session);

  // Opens what the options name. Unavailable with the path and the system's reason if the file cannot be written.
  absl::Status Open();

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

  // Whether everything reached the disk; known after Finalize.
  const absl::Status& status() const { return status_; }

 private:
  const Session& session_;
  std::vector<std::unique_ptr<benchmark::BenchmarkReporter>> sinks_;
  std::string partial_path_;
  std::ofstream file_;
  absl::Status status_;
};

}  // namespace roofbench
