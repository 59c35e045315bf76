// One JSON line for each finished case, handed to the system at once: a crash loses the running case alone.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/harness/outcome.h"
#include "lib/harness/run_identity.h"

namespace roofbench {

using RunFacts = std::vector<std::pair<std::string, std::string>>;

// What a journal holds for the run that goes on with it.
struct Recorded {
  RunFacts context;
  std::vector<Outcome> outcomes;   // finished ones: what was interrupted runs again
  std::vector<std::string> notes;  // what was left out, for people
};

// The first line is {"schema":"roofbench-journal-1","context":{…},"run":{…}}; every other one a case: name, repetition,
// verdict, reason, stop, counters, and every sample and roof ratio. One process writes it at a time.
class Journal {
 public:
  Journal() = default;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  // Creates the file, with its header or not at all. A journal that stood there is renamed to <path>.previous; any
  // other file is refused. Errors name the path, the reason and the way out.
  absl::Status Create(const std::string& path, const RunIdentity& identity, const RunFacts& context);

  // Goes on with the file: NotFound if there is none. Refuses a file that is no journal, is damaged before its last
  // line, belongs to another run or is being written. A last line that was cut off is dropped with a note.
  absl::StatusOr<Recorded> Resume(const std::string& path, const RunIdentity& identity);

  // Appends a line, all of it or nothing. Does nothing if no journal is open.
  absl::Status Append(const Outcome& outcome);

 private:
  absl::Status Write(const std::string& text);
  // Replaces the file by one with this text, which stays open.
  absl::Status WriteAnew(const std::string& text);
  void Close();

  std::string path_;
  int file_ = -1;
};

}  // namespace roofbench
