// SPDX-License-Identifier: Apache-2.0
#include "lib/run/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/atomic_file.h"
#include "lib/results/journal_line.h"

namespace roofbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kSchema[] = "roofbench-journal-1";
constexpr char kStartAnew[] = "; choose another --journal, or leave out --resume to start anew";

Json ObjectOf(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Json object = Json::object();
  for (const auto& [key, value] : pairs) object[key] = value;
  return object;
}

RunFacts PairsOf(const Json& object) {
  RunFacts pairs;
  for (const auto& [key, value] : object.items()) pairs.emplace_back(key, value.get<std::string>());
  return pairs;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string HeaderLine(const RunIdentity& identity, const RunFacts& context, const std::string& contract) {
  Json header = {{"schema", kSchema}, {"context", ObjectOf(context)}, {"run", ObjectOf(identity)}};
  if (!contract.empty()) header["contract"] = Json::parse(contract);
  return header.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// The first line of a file that exists, as a journal's header; null for anything else.
Json HeaderOf(const std::string& line) {
  Json header = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool fits = header.is_object() && header.value("schema", Json()) == kSchema;
  return fits ? header : Json();
}

absl::Status Refusal(const std::string& path, const std::string& reason) {
  return absl::FailedPreconditionError(absl::StrCat("--journal=", path, " ", reason));
}

absl::Status InUse(const std::string& path) {
  return Refusal(path, "is being written by another roofbench; wait for it, or choose another --journal");
}

// A file in memory, which nothing can be renamed to.
bool IsNameless(int file) {
  struct stat facts {};
  return fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 0;
}

}  // namespace

Journal::~Journal() { Close(); }

void Journal::Close() {
  if (file_ >= 0) close(file_);
  file_ = -1;
}

bool Journal::Lock(int file) const {
  constexpr std::chrono::milliseconds kPause(20);
  for (std::chrono::milliseconds waited(0);; waited += kPause) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
    if (waited >= patience_) return false;
    std::this_thread::sleep_for(kPause);
  }
}

absl::Status Journal::Create(const std::string& path, const RunIdentity& identity, const RunFacts& context,
                             const std::string& contract) {
  path_ = path;
  const std::string header = HeaderLine(identity, context, contract);
  struct stat facts {};
  if (stat(path.c_str(), &facts) == 0) {
    if (S_ISDIR(facts.st_mode)) return FileError("write the journal", path, EISDIR);
    // A device is written where it is, and so is a file without a name.
    if (!S_ISREG(facts.st_mode) || facts.st_nlink == 0) {
      file_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (file_ < 0) return FileError("write the journal", path, errno);
      return Write(header);
    }
    if (facts.st_size > 0) {
      std::ifstream old(path);
      std::string line;
      std::getline(old, line);
      if (HeaderOf(line).is_null()) {
        return Refusal(path, "is there and is no journal of roofbench; remove it, or choose another --journal");
      }
      const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      const bool free = file < 0 || Lock(file);
      if (file >= 0) close(file);
      if (!free) return InUse(path);
      const std::string previous = path + ".previous";
      if (std::rename(path.c_str(), previous.c_str()) != 0) return FileError("write", previous, errno);
    }
  }
  return WriteAnew(header);
}

absl::StatusOr<Recorded> Journal::Resume(const std::string& path, const RunIdentity& identity) {
  path_ = path;
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0 && errno == ENOENT) return absl::NotFoundError(path);
  file_ = open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC);
  if (file_ < 0) return FileError("go on with the journal", path, errno);
  if (!IsReplaceable(path)) return Refusal(path, absl::StrCat("is no plain file", kStartAnew));
  if (!Lock(file_)) return InUse(path);

  std::istringstream lines(ReadText(path));
  std::string line;
  std::getline(lines, line);
  if (line.empty() && lines.eof()) return absl::NotFoundError(path);
  const Json header = HeaderOf(line);
  if (header.is_null()) return Refusal(path, absl::StrCat("is no journal of roofbench", kStartAnew));
  Recorded recorded;
  try {
    if (absl::Status status = SameRun(PairsOf(header.value("run", Json::object())), identity); !status.ok()) {
      return Refusal(path, absl::StrCat(std::string(status.message()), kStartAnew));
    }
    recorded.context = PairsOf(header.value("context", Json::object()));
  } catch (const std::exception& error) {
    return Refusal(path, absl::StrCat("has a damaged header (", error.what(), ")", kStartAnew));
  }
  std::string kept = line + "\n";
  std::set<std::pair<std::string, int>> seen;
  int interrupted = 0;
  for (int number = 2; std::getline(lines, line); ++number) {
    if (lines.eof()) {  // no line break: the process ended while it wrote
      recorded.notes.push_back(absl::StrCat("the last line of ", path, " was cut off: its case runs again"));
      break;
    }
    absl::StatusOr<Outcome> outcome = ParseJournalLine(line);
    if (!outcome.ok()) {
      return Refusal(path, absl::StrCat("is damaged in line ", number, " (", std::string(outcome.status().message()),
                                        ")", kStartAnew));
    }
    if (outcome->verdict == Verdict::kInterrupted || outcome->samples.stop == timing::StopReason::kInterrupted) {
      ++interrupted;
      continue;
    }
    if (!seen.emplace(outcome->name, outcome->repetition).second) {
      return Refusal(path, absl::StrCat("has the case ", outcome->name, " twice (line ", number, ")", kStartAnew));
    }
    absl::StrAppend(&kept, line, "\n");
    recorded.outcomes.push_back(*std::move(outcome));
  }
  if (recorded.notes.empty() && interrupted == 0) return recorded;
  if (absl::Status status = Rewrite(kept); !status.ok()) return status;
  return recorded;
}

absl::Status Journal::Rewrite(const std::string& text) {
  if (!IsNameless(file_)) {
    Close();
    return WriteAnew(text);
  }
  if (ftruncate(file_, 0) != 0) return FileError("repair", path_, errno);
  return Write(text);
}

absl::Status Journal::Continue(const std::string& path) {
  path_ = path;
  if (!IsReplaceable(path)) return Refusal(path, "is no plain file: what its process could not write is lost");
  file_ = open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC);
  if (file_ < 0) return FileError("go on with the journal", path, errno);
  if (!Lock(file_)) return InUse(path);
  const std::string text = ReadText(path);
  const std::size_t whole = text.rfind('\n') + 1;  // 0 where there is none
  if (whole < text.size() && ftruncate(file_, static_cast<off_t>(whole)) != 0) {
    return FileError("repair", path, errno);
  }
  return absl::OkStatus();
}

absl::Status Journal::WriteAnew(const std::string& text) {
  const std::string partial = path_ + ".part";
  file_ = open(partial.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) return FileError("write the journal", path_, errno);
  if (!Lock(file_)) return InUse(path_);
  if (ftruncate(file_, 0) != 0) return FileError("write the journal", path_, errno);
  absl::Status status = Write(text);
  if (status.ok() && (fsync(file_) != 0 || std::rename(partial.c_str(), path_.c_str()) != 0)) {
    status = FileError("write the journal", path_, errno);
  }
  if (!status.ok()) std::remove(partial.c_str());
  return status;
}

absl::Status Journal::Write(const std::string& text) {
  const off_t before = lseek(file_, 0, SEEK_END);
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(file_, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int error = count < 0 ? errno : ENOSPC;
      // Half a line would spoil what is appended when there is room again.
      if (before >= 0 && ftruncate(file_, before) != 0 && errno != EINVAL) return FileError("repair", path_, errno);
      return FileError("write the journal", path_, error);
    }
    written += static_cast<std::size_t>(count);
  }
  return absl::OkStatus();
}

absl::Status Journal::Append(const Outcome& outcome) {
  return file_ < 0 ? absl::OkStatus() : Write(JournalLine(outcome) + "\n");
}

absl::StatusOr<std::string> NamelessJournal() {
  const int file = memfd_create("roofbench journal", MFD_CLOEXEC);
  if (file < 0) return FileError("make", "a journal in memory", errno);
  return absl::StrCat("/proc/self/fd/", file);
}

}  // namespace roofbench
