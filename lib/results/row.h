// SPDX-License-Identifier: Apache-2.0
// Rows of a result: one per repetition of a case, and aggregates of the measured repetitions. Console, JSON and CSV
// show rows; only this file converts outcomes to rows.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/results/outcome.h"

namespace roofbench {

// The name of a case.
struct CaseKey {
  std::string family;
  std::string name;
  AxisValues axes = {};  // every axis and its value
};

struct Row {
  CaseKey of;
  std::size_t index = 0;             // of the case in the plan
  const Outcome* outcome = nullptr;  // nullptr for an aggregate
  std::string aggregate = {};        // "mean", "median", "stddev", "cv"; empty for a repetition
  std::size_t repetitions = 1;       // repetitions of the case
  double seconds = 0;                // of a step; for "cv", a fraction, as in the counters
  double cpu_seconds = 0;            // of the process, per step
  std::string label = {};            // why sampling stopped
  std::string error = {};            // "failed: …"; empty for a row with figures
  std::map<std::string, double> counters = {};

  bool IsRatio() const { return aggregate == "cv"; }
  // The case's name; an aggregate appends an underscore and its own name.
  std::string Name() const;
  // All axes, including those omitted from the name, except those named like a counter of the row.
  AxisValues Axes() const;
};

// The rows of a case's repetitions, without interrupted ones. `outcomes` must outlive the rows.
std::vector<Row> RepetitionRows(const CaseKey& of, std::size_t index, const std::deque<Outcome>& outcomes);

// Mean, median, standard deviation and coefficient of variation of the rows without an error; empty for fewer than two.
std::vector<Row> AggregateRows(const std::vector<Row>& repetitions);

struct TimeUnit {
  std::string name = "us";
  double per_second = 1e6;
};
// "ns", "us", "ms" or "s".
TimeUnit TimeUnitNamed(const std::string& name);

// A row of Google Benchmark's JSON, with the axes of the case as fields.
nlohmann::ordered_json RowJson(const Row& row, const TimeUnit& unit);

}  // namespace roofbench
