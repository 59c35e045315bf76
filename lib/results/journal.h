// SPDX-License-Identifier: Apache-2.0
// One JSON line per finished case, passed to the system immediately: a crash loses only the running case.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/files.h"
#include "lib/results/outcome.h"

namespace roofbench {

// Facts that accompany a result: unique keys and their texts.
using RunFacts = std::vector<std::pair<std::string, std::string>>;

// Identifies the processes of one run. Name and value of each part: "program" (a hash of its file), "device", "flags"
// (those that affect what is measured and how, but not where the results are written).
using RunIdentity = RunFacts;

// Returns FailedPrecondition naming the first part that differs, with both values.
absl::Status SameRun(const RunIdentity& recorded, const RunIdentity& now);

// A hash that depends on every byte of a file; NotFound if it cannot be read.
absl::StatusOr<std::string> HashOfFile(const std::string& path);

// What the first line of a journal says of the run.
struct RunHeader {
  RunIdentity identity = {};
  RunFacts context = {};
  std::string contract = {};                // JSON text; empty: none
  std::size_t cases = 0;                    // lines of finished cases that the whole run has; 0: not known
  std::vector<std::string> arguments = {};  // of the command that began it
};

// That line, as below, with its line break.
std::string JournalHeader(const RunHeader& header);

// How far a run has come, as its journal says.
struct RunSoFar {
  std::vector<std::string> arguments;  // of the command that began it
  std::size_t cases = 0;               // of the whole run; 0: not known
  std::size_t finished = 0;

  bool is_complete() const { return finished >= cases; }
};

// Reads the header, and of every other line only whether its case is finished. InvalidArgument for a file that is not a
// journal, NotFound or another error of the system for one that cannot be read.
absl::StatusOr<RunSoFar> ReadRunSoFar(const std::string& path);

// Contents of a journal, for the run that resumes it.
struct Recorded {
  RunFacts context;
  std::vector<Outcome> outcomes;   // of finished cases; interrupted cases run again
  std::vector<std::string> notes;  // explanations of omissions, for users
};

// The first line is {"schema":"roofbench-journal-1","context":{…},"run":{…},"cases":…,"arguments":[…],"contract":{…}};
// every other line holds a case: name, repetition, verdict, reason, stop, counters, and every sample and roof ratio.
// Only one process writes it at a time.
class Journal {
 public:
  // `patience`: how long to wait for the lock, since a killed process may hold its journal for a moment.
  explicit Journal(std::chrono::milliseconds patience = std::chrono::seconds(10)) : file_(patience) {}

  // Creates the file with its header, or not at all. An existing journal is kept as <path>.previous, or
  // <path>.previous.2 and so on if that exists; any other existing file is refused. Errors name the path, the reason
  // and the remedy.
  absl::Status Create(const std::string& path, const RunHeader& header);

  // Resumes the file: NotFound, with a remark for the user, if it does not exist or is empty. Refuses a file that is
  // not a journal, is damaged before its last line, belongs to another run or is being written. A truncated last line
  // is dropped with a note. With `doubtful`, cases in doubt (IsInDoubt) run again, and the journal that has them is
  // kept, as in Create. The last note says how many cases are finished.
  absl::StatusOr<Recorded> Resume(const std::string& path, const RunIdentity& identity, bool doubtful = false);

  // Opens the journal of a run whose process has ended, to append results that it could not write. A truncated last
  // line is dropped.
  absl::Status Continue(const std::string& path);

  // Appends a complete line or nothing. Does nothing if no journal is open.
  absl::Status Append(const Outcome& outcome);
  // The same of a line that ParseJournalLine takes.
  absl::Status AppendLine(const std::string& line);

 private:
  LockedFile file_;
};

// Creates a journal without a name in the file system, and returns its path, which is valid in this process and those
// that it forks.
absl::StatusOr<std::string> NamelessJournal();

}  // namespace roofbench
