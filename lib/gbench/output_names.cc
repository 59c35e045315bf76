// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/output_names.h"

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
#include "lib/gbench/output.h"

namespace roofbench {
namespace {

using absl::StrCat;

struct OutputName {
  std::string flag;
  std::string path;
  std::string of = {};    // the main file that it accompanies; empty: it is itself a given file
  bool numbered = false;  // also with an appended number
};

// The path with symbolic links resolved, as far as it exists.
std::string Place(const std::string& path) {
  std::error_code error;
  const absl::StatusOr<std::string> behind = FollowLinks(path);
  const std::filesystem::path place = std::filesystem::weakly_canonical(behind.ok() ? *behind : path, error);
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

std::vector<OutputName> Given(const Options& options) {
  std::vector<OutputName> names = {
      {"--benchmark_out", options.out}, {"--journal", options.journal}, {"--tokens_out", options.tokens_out}};
  // Other kinds of files accept several writers, and have no accompanying files.
  std::erase_if(names, [](const OutputName& name) { return name.path.empty() || !IsReplaceable(name.path); });
  return names;
}

std::vector<OutputName> Beside(const Options& options, const OutputName& given) {
  std::vector<OutputName> names = {{given.flag, StrCat(given.path, View(kUnfinished)), given.path}};
  if (given.flag == "--benchmark_out" && options.out_format == "json") {
    names.push_back({given.flag, ComparablePath(given.path), given.path});
  }
  if (given.flag == "--journal") names.push_back({given.flag, StrCat(given.path, ".previous"), given.path, true});
  return names;
}

bool Collide(const OutputName& given, const OutputName& other) {
  if (IsSameFile(given.path, other.path)) return true;
  return other.numbered && absl::StartsWith(Place(given.path), StrCat(Place(other.path), "."));
}

}  // namespace

absl::Status CheckOutputNames(const Options& options) {
  const std::vector<OutputName> all = Given(options);
  for (const OutputName& given : all) {
    const std::string said = StrCat(given.flag, "=", given.path);
    if (IsStandardOutput(given.path)) {
      return absl::InvalidArgumentError(
          StrCat(said, " is the file that standard output goes to; choose another, or --benchmark_format"));
    }
    for (const OutputName& other : all) {
      if (&other == &given) continue;
      std::vector<OutputName> names = Beside(options, other);
      names.push_back(other);
      for (const OutputName& name : names) {
        if (!Collide(given, name)) continue;
        return absl::InvalidArgumentError(
            StrCat(said, " is a file of ", name.flag, "=", other.path,
                   name.of.empty() ? "" : StrCat(", which puts ", name.path, " beside it"), "; choose another name"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace roofbench
