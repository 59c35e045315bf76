// SPDX-License-Identifier: Apache-2.0
#include "lib/cli/output_names.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/files.h"
#include "lib/base/text.h"

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

std::vector<OutputName> GivenFiles(const SuiteOptions& options) {
  std::vector<OutputName> names = {
      {"--benchmark_out", options.out}, {"--journal", options.journal}, {"--tokens_out", options.tokens_out}};
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

}  // namespace

absl::Status CheckOutputNames(const SuiteOptions& options) {
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
