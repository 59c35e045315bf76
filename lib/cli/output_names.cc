// SPDX-License-Identifier: Apache-2.0
#include "lib/cli/output_names.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lib/base/files.h"
#include "lib/base/process.h"
#include "lib/base/text.h"
#include "lib/results/journal.h"
#include "lib/results/start_facts.h"

namespace roofbench {
namespace {

struct OutputName {
  std::string flag;
  std::string path;
  std::string of = {};    // the main file that it accompanies; empty: it is itself a given file
  bool numbered = false;  // also with an appended number
};

// The path with symbolic links resolved, as far as it exists.
std::string Place(const std::string& path) {
  std::error_code error;
  const absl::StatusOr<std::string> target = FollowLinks(path);
  // Absolute first: weakly_canonical leaves a relative path as it is when nothing of it exists.
  const std::filesystem::path absolute = std::filesystem::absolute(target.ok() ? *target : path, error);
  const std::filesystem::path place = std::filesystem::weakly_canonical(absolute, error);
  return error ? path : place.string();
}

bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat one {};
  struct stat other {};
  if (stat(a.c_str(), &one) == 0 && stat(b.c_str(), &other) == 0) {
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
  }
  return Place(a) == Place(b);
}

bool IsStandardOutput(const std::string& path) {
  struct stat one {};
  struct stat other {};
  return stat(path.c_str(), &one) == 0 && fstat(STDOUT_FILENO, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

std::vector<OutputName> GivenFiles(const Options& options) {
  std::vector<OutputName> names = {{"--benchmark_out", options.out},
                                   {"--journal", options.journal},
                                   {"--tokens_out", options.tokens_out},
                                   {"--written_to", options.written_to}};
  // Other kinds of files accept several writers, and have no accompanying files.
  std::erase_if(names, [](const OutputName& name) { return name.path.empty() || !IsReplaceable(name.path); });
  return names;
}

std::vector<OutputName> AccompanyingFiles(const OutputName& given) {
  std::vector<OutputName> names = {{given.flag, absl::StrCat(given.path, View(kUnfinished)), given.path}};
  if (given.flag == "--journal") names.push_back({given.flag, absl::StrCat(given.path, ".previous"), given.path, true});
  return names;
}

bool Collide(const OutputName& given, const OutputName& other) {
  if (IsSameFile(given.path, other.path)) return true;
  return other.numbered && absl::StartsWith(Place(given.path), absl::StrCat(Place(other.path), "."));
}

constexpr std::string_view kJournalEnd = ".journal.jsonl";

// The path without the end of its file's name.
std::string StemOf(const std::string& path) {
  if (absl::EndsWith(path, View(kJournalEnd))) return path.substr(0, path.size() - kJournalEnd.size());
  return std::filesystem::path(path).replace_extension().string();
}

std::string JournalNextTo(const std::string& out) { return absl::StrCat(StemOf(out), View(kJournalEnd)); }

// "20260131T020000Z-host", of characters that every file system and shell takes.
std::string NameOfRun() {
  std::string time;
  std::string host;
  for (const auto& [fact, value] : StartFacts()) (fact == "started" ? time : host) = value;
  time = absl::StrReplaceAll(time.substr(0, time.find('+')), {{"-", ""}, {":", ""}});
  for (char& one : host) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(one)) && one != '.' && one != '-') one = '_';
  }
  return absl::StrCat(time, "Z-", host);
}

enum class Run { kIncomplete, kAny };

// Empty if there is none.
std::string Newest(Run wanted, const std::string& folder) {
  std::string newest;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    if (!absl::EndsWith(path, View(kJournalEnd)) || path < newest) continue;  // names begin with the time
    const absl::StatusOr<RunSoFar> run = ReadRunSoFar(path);
    if (run.ok() && (wanted == Run::kAny || !run->is_complete())) newest = path;
  }
  return newest;
}

}  // namespace

absl::StatusOr<std::string> JournalToResume(const Options& options) {
  if (!options.journal.empty()) return options.journal;
  constexpr std::string_view kWayOut = "; without --resume a new run starts";
  if (!options.out.empty()) {
    std::string journal = JournalNextTo(options.out);
    if (ReadRunSoFar(journal).ok()) return journal;
    return absl::InvalidArgumentError(absl::StrCat("--resume needs --journal=FILE, which keeps the finished cases: ",
                                                   journal, ", next to --benchmark_out, is not one", View(kWayOut)));
  }
  if (options.results.empty()) {
    return absl::InvalidArgumentError(
        "--resume needs --journal=FILE, which keeps the finished cases, or --results=FOLDER, which has such files");
  }
  std::string newest = Newest(options.resume_doubtful ? Run::kAny : Run::kIncomplete, options.results);
  if (!newest.empty()) return newest;
  return absl::InvalidArgumentError(absl::StrCat("there is no ", options.resume_doubtful ? "" : "incomplete ",
                                                 "run to resume in ", options.results, View(kWayOut)));
}

void NameOutputs(Options& options, const std::string& journal) {
  if (options.journal.empty()) options.journal = journal;
  if (options.results.empty()) return;
  if (options.out.empty()) {
    const std::string stem =
        journal.empty() ? (std::filesystem::path(options.results) / NameOfRun()).string() : StemOf(journal);
    options.out = absl::StrCat(stem, ".", options.out_format == "console" ? "txt" : options.out_format);
  }
  if (options.journal.empty() && IsReplaceable(options.out)) options.journal = JournalNextTo(options.out);
}

absl::Status PrepareResults(const Options& options) {
  if (options.results.empty() || options.given.contains("benchmark_out")) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(options.results, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot make the folder ", options.results, ": ", error.message(),
                                               "; choose another --results, or name a file: --benchmark_out=FILE"));
  }
  if (options.resume) return absl::OkStatus();
  if (const std::string journal = Newest(Run::kIncomplete, options.results); !journal.empty()) {
    std::cerr << ProgramName() << ": the run of " << journal << " is incomplete: --resume continues it\n";
  }
  return absl::OkStatus();
}

std::vector<std::string> WrittenFiles(const Options& options, bool journal_begun, bool written) {
  std::vector<std::string> files;
  if (journal_begun) files.push_back(options.journal);
  if (written) files.insert(files.end(), {options.out, options.tokens_out});
  std::erase_if(files, [](const std::string& file) {
    std::error_code error;
    return !std::filesystem::is_regular_file(file, error);
  });
  return files;
}

std::string HowToContinue(const Options& options) {
  const absl::StatusOr<RunSoFar> run = ReadRunSoFar(options.journal);
  if (!run.ok() || run->is_complete()) return "";
  if (options.given.contains("journal")) return absl::StrCat("--resume --journal=", options.journal);
  return options.given.contains("benchmark_out") ? absl::StrCat("--resume --benchmark_out=", options.out) : "--resume";
}

absl::Status CheckOutputNames(const Options& options) {
  const std::vector<OutputName> all = GivenFiles(options);
  for (const OutputName& given : all) {
    const std::string said = absl::StrCat(given.flag, "=", given.path);
    if (IsStandardOutput(given.path)) {
      return absl::InvalidArgumentError(
          absl::StrCat(said, " is the file that standard output goes to; choose another, or --benchmark_format"));
    }
    for (const OutputName& other : all) {
      if (&other == &given) continue;
      std::vector<OutputName> names = AccompanyingFiles(other);
      names.push_back(other);
      for (const OutputName& name : names) {
        if (!Collide(given, name)) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            said, " is a file of ", name.flag, "=", other.path,
            name.of.empty() ? "" : absl::StrCat(", which puts ", name.path, " next to it"), "; choose another name"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace roofbench
