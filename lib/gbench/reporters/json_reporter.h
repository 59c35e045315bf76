// SPDX-License-Identifier: Apache-2.0
// Google Benchmark's JSON, with the axes of each case as fields of its row: columns of a data frame.
#pragma once

#include <benchmark/benchmark.h>

#include <utility>
#include <vector>

#include "lib/gbench/reporters/axis_columns.h"

namespace roofbench {

class JsonRows : public benchmark::JSONReporter {
 public:
  explicit JsonRows(AxesOfRow axes_of) : axes_of_(std::move(axes_of)) {}

  void ReportRuns(const std::vector<Run>& runs) override;

 private:
  AxesOfRow axes_of_;
};

}  // namespace roofbench
