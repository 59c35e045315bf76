// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/library_log.h"

#include <ATen/native/verbose_wrapper.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "lib/base/files.h"
#include "lib/base/text.h"

namespace roofbench::observe {
namespace {

constexpr absl::string_view kOnednn = "onednn_verbose,";
constexpr absl::string_view kMkl = "MKL_VERBOSE ";

bool IsAskedFor() {
  constexpr std::array kAsking = {"ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKL_VERBOSE"};
  return std::any_of(kAsking.begin(), kAsking.end(), [](const char* name) { return std::getenv(name) != nullptr; });
}

void SetVerbose(bool is_on) {
  torch::verbose::_mkldnn_set_verbose(is_on ? 1 : 0);
  torch::verbose::_mkl_set_verbose(is_on ? 1 : 0);
}

void Flush() {
  std::cout.flush();
  std::fflush(stdout);
}

// One call as a row without a share.
std::optional<RoutineRow> OnednnCall(absl::string_view line) {
  // Among the ten fields of oneDNN's template, from "exec" on; a time stamp may precede it.
  constexpr std::size_t kPrimitive = 2;
  constexpr std::size_t kKernel = 3;
  constexpr std::size_t kProblem = 8;
  constexpr std::size_t kTime = 9;
  std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
  const auto exec = std::find(fields.begin(), fields.end(), "exec");
  fields.erase(fields.begin(), exec);
  double milliseconds = 0;
  if (fields.size() != kTime + 1 || !absl::SimpleAtod(fields[kTime], &milliseconds)) return std::nullopt;
  return RoutineRow{.library = "oneDNN",
                    .name = absl::StrCat(fields[kPrimitive], " ", fields[kKernel]),
                    .problem = std::string(fields[kProblem]),
                    .calls = 1,
                    .total = milliseconds * 1e-3};
}

// "424.79us" in seconds.
std::optional<double> SecondsIn(absl::string_view time) {
  constexpr std::pair<absl::string_view, double> kUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  for (const auto& [unit, seconds] : kUnits) {
    double value = 0;
    if (absl::string_view number = time; absl::ConsumeSuffix(&number, unit) && absl::SimpleAtod(number, &value)) {
      return value * seconds;
    }
  }
  return std::nullopt;
}

std::optional<RoutineRow> MklCall(absl::string_view line) {
  line.remove_prefix(kMkl.size());
  const std::size_t open = line.find('(');
  const std::size_t close = line.find(") ");
  if (open == absl::string_view::npos || close == absl::string_view::npos || close < open) return std::nullopt;
  const std::vector<absl::string_view> after = absl::StrSplit(line.substr(close + 2), ' ');
  const std::optional<double> seconds = SecondsIn(after.front());
  if (!seconds) return std::nullopt;
  // The sizes precede the first address.
  absl::string_view problem = line.substr(open + 1, close - open - 1);
  problem = problem.substr(0, problem.find("0x"));
  absl::ConsumeSuffix(&problem, ",");
  return RoutineRow{.library = "MKL",
                    .name = std::string(line.substr(0, open)),
                    .problem = std::string(problem),
                    .calls = 1,
                    .total = *seconds};
}

bool IsLibraryLine(absl::string_view line) { return absl::StartsWith(line, kOnednn) || absl::StartsWith(line, kMkl); }

}  // namespace

LibraryLog::LibraryLog() {
  if (IsAskedFor()) return;
  Flush();
  standard_ = dup(STDOUT_FILENO);
  taken_ = memfd_create("routines", MFD_CLOEXEC);
  if (standard_ < 0 || taken_ < 0 || dup2(taken_, STDOUT_FILENO) < 0) {
    const int error = errno;
    close(standard_);
    close(taken_);
    throw std::system_error(error, std::generic_category(), "cannot capture the output of oneDNN and MKL");
  }
  SetVerbose(true);
}

LibraryLog::~LibraryLog() {
  if (taken_ < 0) return;
  SetVerbose(false);
  const std::string text = Text();
  dup2(standard_, STDOUT_FILENO);
  close(standard_);
  close(taken_);
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (!IsLibraryLine(line)) WriteAll(STDOUT_FILENO, absl::StrCat(line, "\n"));
  }
}

std::string LibraryLog::Text() const {
  if (taken_ < 0) return "";
  Flush();
  return ReadAll(taken_);
}

std::vector<RoutineRow> RoutinesIn(std::string_view text, double step) {
  std::map<std::pair<std::string, std::string>, RoutineRow> rows;
  for (const absl::string_view line : absl::StrSplit(View(text), '\n')) {
    std::optional<RoutineRow> call;
    if (absl::StartsWith(line, kOnednn)) call = OnednnCall(line);
    if (absl::StartsWith(line, kMkl)) call = MklCall(line);
    if (!call) continue;
    RoutineRow& row = rows.try_emplace({absl::StrCat(call->library, " ", call->name), call->problem}).first->second;
    call->calls += row.calls;
    call->total += row.total;
    row = *std::move(call);
  }
  std::vector<RoutineRow> routines;
  for (auto& [key, row] : rows) {
    row.share = step > 0 ? row.total / step : 0;
    routines.push_back(std::move(row));
  }
  std::stable_sort(routines.begin(), routines.end(),
                   [](const RoutineRow& a, const RoutineRow& b) { return a.total > b.total; });
  return routines;
}

}  // namespace roofbench::observe
