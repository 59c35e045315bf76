// SPDX-License-Identifier: Apache-2.0
// One JSON line for each finished case, handed to the system at once: a crash loses the running case alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/files.h"
#include "lib/results/outcome.h"
#include "lib/run/journal/run_identity.h"

namespace roofbench {

using RunFacts = std::vector<std::pair<std::string, std::string>>;

// What a journal holds for the run that goes on with it.
struct Recorded {
  RunFacts context;
  std::vector<Outcome> outcomes;   // finished ones: what was interrupted runs again
  std::vector<std::string> notes;  // what was left out, for people
};

// The first line is {"schema":"roofbench-journal-1","context":{…},"run":{…},"contract":{…}}; every other one a case:
// name, repetition, verdict, reason, stop, counters, and every sample and roof ratio. One process writes it at a time.
class Journal {
 public:
  // A process that was killed may hold its journal for moments yet: so long this waits for it.
  explicit Journal(std::chrono::milliseconds patience = std::chrono::seconds(10)) : file_(patience) {}

  // Creates the file, with its header or not at all. A journal that stood there is kept as <path>.previous, or
  // <path>.previous.2 and so on where there is one; any other file is refused. Errors name the path, the reason and the
  // way out. `contract`: JSON text; empty: none.
  absl::Status Create(const std::string& path, const RunIdentity& identity, const RunFacts& context,
                      const std::string& contract = "");

  // Goes on with the file: NotFound if there is none. Refuses a file that is no journal, is damaged before its last
  // line, belongs to another run or is being written. A last line that was cut off is dropped with a note.
  absl::StatusOr<Recorded> Resume(const std::string& path, const RunIdentity& identity);

  // Opens the journal of a run whose process has ended, to append what it could not write. A last line that was cut off
  // is dropped.
  absl::Status Continue(const std::string& path);

  // Appends a line, all of it or nothing. Does nothing if no journal is open.
  absl::Status Append(const Outcome& outcome);

 private:
  LockedFile file_;
};

// A journal that needs no place and leaves none behind: its path in this process and in those that it forks.
absl::StatusOr<std::string> NamelessJournal();

}  // namespace roofbench
