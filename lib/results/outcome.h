// SPDX-License-Identifier: Apache-2.0
// All information about a case after it ran, was skipped or failed.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/axes.h"
#include "lib/hardware/conditions/conditions_watch.h"
#include "lib/timing/sampler.h"
#include "lib/timing/statistics.h"
#include "lib/workload/cost.h"
#include "lib/workload/model_work.h"

namespace roofbench {

enum class Verdict { kMeasured, kSkipped, kFailed, kInterrupted };
std::string_view Name(Verdict verdict);  // "measured", "skipped", "failed", "interrupted"

// One counter of a case, ready to print.
using CounterValue = std::pair<std::string, double>;

struct Outcome {
  std::string name = {};  // of the case
  AxisValues axes = {};   // of the case: every axis and its value
  int repetition = 0;
  Verdict verdict = Verdict::kMeasured;
  std::string reason = {};  // why it was skipped or failed
  std::string text = {};    // text output of the case, for users
  workload::Cost cost = {};
  timing::Samples samples = {};
  timing::Summary summary = {};
  std::vector<std::string> phases = {};
  std::vector<double> roof_ratios = {};  // one per chunk: time at the roof probed with it over the chunk's median
  // The roof probed with the case read too low, because of other programs or slower memory. The ratios stay here and in
  // the journal, but no counter gives a share of that roof.
  bool disturbed = false;
  std::string roof_name = {};
  std::vector<double> phase_roofs =
      {};  // one per phase: median of the same ratios for its own operations; 0: it has none
  double peak_memory_bytes = 0;
  std::optional<double> process_bytes = {};            // peak RAM of the process
  std::optional<double> predicted_process_bytes = {};  // prediction of the same from the case's formula and earlier use
  hardware::MeasuredConditions conditions = {};
  std::vector<std::string> noise = {};  // reasons why it is noisy: NoiseOf
  std::optional<double> joules_per_step = {};
  double parameters = 0;
  workload::ModelWork model = {};
  std::vector<double> model_ratios = {};  // per chunk: the model's FLOPs at the measured peak over the chunk's median
  std::vector<CounterValue> figures = {};
  std::vector<CounterValue> counters = {};  // all of the above as the contract's counters
};

}  // namespace roofbench
