// SPDX-License-Identifier: Apache-2.0
// Every flag of the program: ours, and those of Google Benchmark.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/flags/declare.h"

ABSL_DECLARE_FLAG(std::string, device);
ABSL_DECLARE_FLAG(std::string, suite);
ABSL_DECLARE_FLAG(bool, list_axes);
ABSL_DECLARE_FLAG(bool, explain_counters);
ABSL_DECLARE_FLAG(std::string, reference);
ABSL_DECLARE_FLAG(int64_t, warmup_iters);
ABSL_DECLARE_FLAG(int64_t, min_samples);
ABSL_DECLARE_FLAG(int64_t, max_samples);
ABSL_DECLARE_FLAG(double, max_time);
ABSL_DECLARE_FLAG(double, roof_share);
ABSL_DECLARE_FLAG(std::string, roofs);
ABSL_DECLARE_FLAG(double, max_step_time);
ABSL_DECLARE_FLAG(std::string, check);
ABSL_DECLARE_FLAG(int32_t, threads);
ABSL_DECLARE_FLAG(bool, oversubscribe);
ABSL_DECLARE_FLAG(uint64_t, seed);
ABSL_DECLARE_FLAG(std::string, allocator);
ABSL_DECLARE_FLAG(double, inject_delay);
ABSL_DECLARE_FLAG(bool, unverified);
ABSL_DECLARE_FLAG(bool, nvtx);
ABSL_DECLARE_FLAG(std::string, profile);
ABSL_DECLARE_FLAG(std::string, memory_snapshot);
ABSL_DECLARE_FLAG(int64_t, profile_steps);
ABSL_DECLARE_FLAG(std::string, profile_sort);
ABSL_DECLARE_FLAG(int64_t, profile_rows);
ABSL_DECLARE_FLAG(int64_t, profile_depth);
ABSL_DECLARE_FLAG(int64_t, profile_width);
ABSL_DECLARE_FLAG(std::string, journal);
ABSL_DECLARE_FLAG(bool, resume);
ABSL_DECLARE_FLAG(double, case_timeout);
ABSL_DECLARE_FLAG(bool, supervise);
ABSL_DECLARE_FLAG(bool, fresh_process);
ABSL_DECLARE_FLAG(bool, coordinate_descent_tuning);
ABSL_DECLARE_FLAG(std::string, describe);
ABSL_DECLARE_FLAG(double, wait_quiet);
ABSL_DECLARE_FLAG(bool, doctor);

namespace roofbench {

struct FlagRow {
  std::string_view name;
  std::string_view value;     // how --help shows its value
  std::string_view doc = {};  // empty: Abseil's own help text of the flag
  // Says where results go or when to give up, not what is measured or how: a run may go on with another value.
  bool aside = false;
  bool question = false;  // answered in place of a run, so that an empty value asks nothing
};

struct FlagGroup {
  std::string_view title;
  std::vector<FlagRow> flags;
};

// Every flag that is accepted, in the order of --help, without those of families that this program does not have.
const std::vector<FlagGroup>& FlagGroups();

// Their names.
std::vector<std::string> KnownFlags();
// The row of one of these; nullptr for any other name.
const FlagRow* FindFlagRow(std::string_view name);

// Flags of Google Benchmark whose meaning we keep but whose work we do, or which make no sense here, and why.
const std::map<std::string, std::string>& RefusedLibraryFlags();

// Shorter or other spellings that are as good.
const std::map<std::string, std::string>& FlagAliases();

// Flags by the names that they had, and what they are called now.
const std::map<std::string, std::string>& RenamedFlags();

}  // namespace roofbench
