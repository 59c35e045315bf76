// SPDX-License-Identifier: Apache-2.0
#include "lib/results/journal.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/files.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/results/evaluation.h"
#include "lib/results/journal_line.h"

namespace roofbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kSchema[] = "roofbench-journal-1";
constexpr char kStartOver[] = "; choose another --journal, or leave out --resume to start over";

Json ObjectOf(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Json object = Json::object();
  for (const auto& [key, value] : pairs) object[key] = value;
  return object;
}

// The strings under `key` in the header.
absl::StatusOr<RunFacts> FactsOf(const Json& header, const char* key) {
  const auto found = header.find(key);
  if (found == header.end() || !found->is_object() || found->empty()) {
    return absl::InvalidArgumentError(absl::StrCat("it has no ", key));
  }
  RunFacts facts;
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) return absl::InvalidArgumentError(absl::StrCat("a ", key, " is not a string: ", name));
    facts.emplace_back(name, value.get<std::string>());
  }
  return facts;
}

bool IsEmpty(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && facts.st_size == 0;
}

std::string FirstLineOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  std::getline(file, line);
  return line;
}

// Parses the first line of an existing file as a journal's header; null for anything else.
Json HeaderOf(const std::string& line) {
  absl::StatusOr<Json> header = ParseOrderedJsonObject(line, kMostJournalDepth);
  return header.ok() && header->value("schema", Json()) == kSchema ? *std::move(header) : Json();
}

absl::Status Refusal(const std::string& path, const std::string& reason) {
  return absl::FailedPreconditionError(absl::StrCat("--journal=", path, " ", reason));
}

// The status of opening a journal, with an explanation for users.
absl::Status Explained(const std::string& path, const absl::Status& status) {
  if (!absl::IsAborted(status)) return status;
  return Refusal(path, "is being written by another roofbench; wait for it, or choose another --journal");
}

std::string ValueOf(const RunIdentity& identity, const std::string& name) {
  for (const auto& [key, value] : identity) {
    if (key == name) return value;
  }
  return "";
}

}  // namespace

std::string JournalHeader(const RunHeader& header) {
  Json line = {{"schema", kSchema}, {"context", ObjectOf(header.context)}, {"run", ObjectOf(header.identity)}};
  if (header.cases > 0) line["cases"] = header.cases;
  if (!header.arguments.empty()) line["arguments"] = header.arguments;
  if (!header.contract.empty()) line["contract"] = Json::parse(header.contract);
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<RunSoFar> ReadRunSoFar(const std::string& path) try {
  // Never waits for a pipe's writer.
  if (const auto file = RegularFile::Open(path); !file.ok()) return file.status();
  std::ifstream lines(path, std::ios::binary);
  std::string line;
  std::getline(lines, line);
  const Json header = HeaderOf(line);
  if (header.is_null()) return absl::InvalidArgumentError(absl::StrCat(path, " is not a journal of roofbench"));
  RunSoFar run = {.arguments = header.value("arguments", std::vector<std::string>()),
                  .cases = header.value("cases", std::size_t{0})};
  while (std::getline(lines, line) && !lines.eof()) {  // without a line break: cut off
    // Quotes within a text are escaped, so that no text of a case has these.
    const bool is_interrupted = line.find(R"("verdict":"interrupted")") != std::string::npos ||
                                line.find(R"("stop":"interrupted")") != std::string::npos;
    if (!is_interrupted) ++run.finished;
  }
  return run;
} catch (const Json::exception& error) {
  return absl::InvalidArgumentError(absl::StrCat(path, " has a damaged header (", error.what(), ")"));
}

absl::StatusOr<std::string> HashOfFile(const std::string& path) {
  // FNV-1a over eight-byte words, because a binary with sanitizers has a hundred megabytes.
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = 0xcbf29ce484222325;
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::array<char, 1 << 16> block{};
  while (file.read(block.data(), block.size()), file.gcount() > 0) {
    const auto length = static_cast<std::size_t>(file.gcount());
    for (std::size_t i = 0; i < length; i += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, block.data() + i, std::min(sizeof(word), length - i));
      hash = (hash ^ word) * kPrime;
      hash ^= hash >> 32;  // a product alone carries nothing into lower bits
    }
  }
  return absl::StrFormat("%016x", hash);
}

absl::Status SameRun(const RunIdentity& recorded, const RunIdentity& now) {
  for (const auto& [name, value] : now) {
    const std::string before = ValueOf(recorded, name);
    if (before != value) {
      return absl::FailedPreconditionError(
          absl::StrCat("belongs to another run, with the ", name, " '", before, "' and not '", value, "'",
                       name == "flags"     ? "; without these flags, --resume continues it with its own"
                       : name == "program" ? "; it has changed since: begin another --journal"
                                           : ""));
    }
  }
  return absl::OkStatus();
}

absl::Status Journal::Create(const std::string& path, const RunHeader& of_run) {
  const std::string header = JournalHeader(of_run);
  struct stat facts {};
  if (stat(path.c_str(), &facts) == 0) {
    if (S_ISDIR(facts.st_mode)) return FileError("write", path, EISDIR);
    // Devices and files without a name are written in place.
    if (!S_ISREG(facts.st_mode) || IsNameless(path)) {
      if (absl::Status status = file_.OpenInPlace(path); !status.ok()) return status;
      return file_.Append(header);
    }
  }
  if (absl::Status status = file_.Open(path, /*create=*/true); !status.ok()) return Explained(path, status);
  const bool was_empty = IsEmpty(path);
  if (!was_empty && HeaderOf(FirstLineOf(path)).is_null()) {
    return Refusal(path, "exists and is not a journal of roofbench; remove it, or choose another --journal");
  }
  return file_.Replace(header, was_empty ? LockedFile::Old::kDrop : LockedFile::Old::kKeep);
}

absl::StatusOr<Recorded> Journal::Resume(const std::string& path, const RunIdentity& identity, bool doubtful) {
  if (!IsReplaceable(path)) return Refusal(path, absl::StrCat("is not a regular file", kStartOver));
  const absl::Status nothing =
      doubtful ? Refusal(path, "holds no run, of which --resume=doubtful measures cases again")
               : absl::NotFoundError(absl::StrCat("there is nothing in ", path, " yet: starting with the first case"));
  if (absl::Status status = file_.Open(path, /*create=*/false); !status.ok()) {
    return absl::IsNotFound(status) ? nothing : Explained(path, status);
  }
  const std::string text = file_.Read();
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  if (line.empty() && lines.eof()) {
    file_.Close();
    return nothing;
  }
  const Json header = HeaderOf(line);
  if (header.is_null()) return Refusal(path, absl::StrCat("is not a journal of roofbench", kStartOver));
  Recorded recorded;
  absl::StatusOr<RunFacts> context = FactsOf(header, "context");
  const absl::StatusOr<RunIdentity> run = FactsOf(header, "run");
  for (const absl::Status& status : {context.status(), run.status()}) {
    if (!status.ok()) {
      return Refusal(path, absl::StrCat("has a damaged header (", status.message(), ")", kStartOver));
    }
  }
  if (absl::Status status = SameRun(*run, identity); !status.ok()) {
    return Refusal(path, absl::StrCat(status.message(), kStartOver));
  }
  recorded.context = *std::move(context);
  std::string kept = line + "\n";
  std::set<std::pair<std::string, int>> seen;
  std::size_t in_doubt = 0;
  for (int number = 2; std::getline(lines, line); ++number) {
    if (lines.eof()) {  // no line break: the process ended while writing
      recorded.notes.push_back(absl::StrCat("the last line of ", path, " was cut off: its case runs again"));
      break;
    }
    absl::StatusOr<Outcome> outcome = ParseJournalLine(line);
    if (!outcome.ok()) {
      return Refusal(path,
                     absl::StrCat("is damaged in line ", number, " (", outcome.status().message(), ")", kStartOver));
    }
    if (outcome->verdict == Verdict::kInterrupted || outcome->samples.stop == timing::StopReason::kInterrupted) {
      continue;
    }
    if (!seen.emplace(outcome->name, outcome->repetition).second) {
      return Refusal(path, absl::StrCat("has the case ", outcome->name, " twice (line ", number, ")", kStartOver));
    }
    if (doubtful && IsInDoubt(*outcome)) {
      ++in_doubt;
      continue;
    }
    absl::StrAppend(&kept, line, "\n");
    recorded.outcomes.push_back(*std::move(outcome));
  }
  if (doubtful) {
    recorded.notes.push_back(absl::StrCat(Counted(in_doubt, "measured case"), " of ", path, " in doubt run again",
                                          in_doubt > 0 ? "; they are kept in .previous next to it" : ""));
  }
  recorded.notes.push_back(
      absl::StrCat("continuing after ", Counted(recorded.outcomes.size(), "finished case"), " of ", path));
  if (kept == text) return recorded;
  const LockedFile::Old old = in_doubt > 0 ? LockedFile::Old::kKeep : LockedFile::Old::kDrop;
  if (absl::Status status = file_.Replace(kept, old); !status.ok()) return status;
  return recorded;
}

absl::Status Journal::Continue(const std::string& path) {
  if (!IsReplaceable(path)) return Refusal(path, "is not a regular file: what its process could not write is lost");
  if (absl::Status status = file_.Open(path, /*create=*/false); !status.ok()) return Explained(path, status);
  const std::string text = file_.Read();
  const std::size_t whole = text.rfind('\n') + 1;  // 0 if there is none
  return whole < text.size() ? file_.Truncate(whole) : absl::OkStatus();
}

absl::Status Journal::Append(const Outcome& outcome) { return AppendLine(JournalLine(outcome)); }

absl::Status Journal::AppendLine(const std::string& line) {
  return file_.is_open() ? file_.Append(line + "\n") : absl::OkStatus();
}

absl::StatusOr<std::string> NamelessJournal() {
  const int file = memfd_create("roofbench journal", MFD_CLOEXEC);
  if (file < 0) return FileError("make", "a journal in memory", errno);
  return absl::StrCat("/proc/self/fd/", file);
}

}  // namespace roofbench
