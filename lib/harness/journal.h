// One JSON line for each finished case, flushed at once: a crash loses the running case alone.
#pragma once

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lib/harness/outcome.h"

namespace roofbench {

// The first line is {"schema":"roofbench-journal-1","context":{…}}; every other one a case: name, repetition, verdict,
// reason, stop, counters, and every sample and roof ratio.
class Journal {
 public:
  // Creates the file. Unavailable with the path and the system's reason.
  absl::Status Open(const std::string& path, const std::vector<std::pair<std::string, std::string>>& context);

  // Appends a line. Does nothing if no journal is open.
  absl::Status Append(const Outcome& outcome);

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace roofbench
