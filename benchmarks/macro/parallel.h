// SPDX-License-Identifier: Apache-2.0
// Steps that several ranks share, as a family declares them: the axes, what they need, and what comes out.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "lib/cases/point.h"
#include "lib/device/device.h"
#include "lib/models/training/parallel_run.h"
#include "lib/suite/case.h"
#include "lib/suite/inputs.h"
#include "lib/workload/models/sharded_memory.h"

namespace roofbench {

inline constexpr char kParallelAxis[] = "parallel";
inline constexpr char kNotParallel[] = "none";

// parallel, bucket_mib and ranks, whose defaults are one process.
std::vector<AxisSpec> ParallelAxes();
// The same of a model that ranks divide, or not: parallel:none and parallel:tensor.
std::vector<AxisSpec> TensorParallelAxes();
// nullptr: one process.
const models::ParallelRow* ParallelAt(const Point& at);
// Ranks that the model is divided among (`tensor`), and parts of the batch that is on all of them.
int64_t ModelParts(const Point& at);
int64_t BatchParts(const Point& at);
// Whether ranks can share a step of this implementation.
absl::Status SupportsRanks(const Point& at);
// The same for the step of a training.
absl::Status SupportsParallel(const Point& at);
// Why impl:fastest would be impl:native here.
absl::Status SupportsChoice();
// Kernels that no GPU may have run yet.
std::vector<std::string_view> ParallelKernels(const Point& at);

// The memory of a case and the traffic between its ranks, in bytes.
struct ParallelWork {
  workload::Cost cost = {};  // of one rank
  // One rank's, with the whole model or its part of it, if one process ran the step.
  double parameters = 0;
  double optimizer = 0;
  double peak = 0;
  double sharded_peak = 0;   // with its part of each unit alone
  double operands = 0;       // there throughout besides them
  double loss_gradient = 0;  // there while backward runs
  double summed = 0;         // activations that `tensor` sums over the ranks in a step
  double passes = 1;         // that exchange gradients in a step
  bool updates = false;      // has an optimizer
  std::vector<workload::StepUnit> units = {};
};

// The work of all ranks, with the memory of one.
workload::Cost ParallelCost(const Point& at, const ParallelWork& work);

models::ParallelRun::Options ParallelOptions(const Point& at, const Inputs& in);

// The bytes that ranks send in a step of a built case, and its times.
struct StepExchanges {
  std::function<double()> sent_bytes;
  std::function<const models::ParallelTimes&()> times;
};
void DescribeExchanges(const Point& at, const ParallelWork& work, const StepExchanges& step, Case& built);

// Phases, times, bytes and memory of a built case.
void DescribeParallel(const Point& at, const ParallelWork& work, const std::shared_ptr<models::ParallelRun>& run,
                      Case& built);

// A step of it for StepOn.
void StepParallel(models::ParallelRun& run, timing::PhaseMarker& marker);

}  // namespace roofbench
