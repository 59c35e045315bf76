// SPDX-License-Identifier: Apache-2.0
// The tables of a profile as text, CSV and JSON.
#pragma once

#include <string>
#include <vector>

#include "lib/observe/profile/tables.h"

namespace roofbench::observe {

// A phase of a step by our clock, in seconds of one step.
struct PhaseFacts {
  std::string name = {};
  double timed = 0;      // median of the samples
  double stopwatch = 0;  // mean of the recorded steps
};

// Seconds are of one step.
struct ProfileFacts {
  std::string case_name = {};
  std::string device = {};  // "cpu" or "cuda"
  int threads = 0;
  int steps = 0;         // recorded
  double timed = 0;      // median of the case's samples
  double stopwatch = 0;  // mean of the recorded steps by our clock
  std::vector<PhaseFacts> phases = {};
};

struct TextLimits {
  std::size_t rows = 50;   // of a table
  std::size_t width = 60;  // of a name
};

// Operators, kernels, parts of the model and routines, each with a heading and a count of omitted rows.
std::string ProfileText(const ProfileFacts& facts, const ProfileTables& tables, const TextLimits& limits);

// All rows. Times are in milliseconds, in columns that end in _ms.
std::string OperatorsCsv(const ProfileTables& tables);
std::string KernelsCsv(const ProfileTables& tables);
std::string ModulesCsv(const ProfileTables& tables);
std::string RoutinesCsv(const ProfileTables& tables);
std::string ProfileJson(const ProfileFacts& facts, const ProfileTables& tables);

}  // namespace roofbench::observe
