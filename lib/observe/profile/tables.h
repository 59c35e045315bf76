// SPDX-License-Identifier: Apache-2.0
// What a profile adds up to: by operator, by kernel, by part of the model. All figures are of one step.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/observe/profile/event.h"

namespace roofbench::observe {

struct ProfileRequest {
  int steps = 1;            // that were recorded
  int depth = 0;            // operators inside so many others, and deeper parts of the model, are left out; 0: none are
  std::string sort = {};    // a column of kSortColumns
  std::string kernel = {};  // what the step itself is where it opens no range: a kernel of ours; empty: it is none
  double between = 0;       // seconds of a step outside of operators and kernels of ours without the profiler
};

// Seconds, calls, FLOPs and bytes of one step. Shares are of the step: of its time on the device where that is known.
struct OperatorRow {
  std::string name = {};
  std::string shapes = {};
  double calls = 0;
  double self = 0;   // on the host
  double total = 0;  // with the operators inside it
  double self_device = 0;
  double total_device = 0;
  double flops = 0;
  double input_bytes = 0;
  double share = 0;  // of self time
};

// On a GPU: its kernels. On a CPU: kernels of ours, and LibTorch's operators, whose loops have no name of their own.
struct KernelRow {
  std::string name = {};
  std::string phase = {};  // the part of the step: "forward", "decode"; empty where it has none
  std::string work = {};   // Name(WorkKind)
  double calls = 0;
  double total = 0;
  double flops = 0;
  double share = 0;
  std::string launch = {};  // of the first call

  double mean() const { return calls > 0 ? total / calls : 0; }
};

struct ModuleRow {
  std::string path = {};  // "forward/block 3/attention"; empty: the step
  int depth = 0;
  double calls = 0;  // of its range; 0 in the backward pass, which has none
  double self = 0;   // on the host
  double total = 0;  // with the parts inside it
  double total_device = 0;
  double flops = 0;
  double share = 0;
};

// A routine of oneDNN or MKL, inside of the operators: with one problem (its sizes), as the library itself tells.
struct RoutineRow {
  std::string library = {};
  std::string name = {};
  std::string problem = {};
  double calls = 0;
  double total = 0;
  double share = 0;

  double mean() const { return calls > 0 ? total / calls : 0; }
};

struct ProfileTables {
  double step = 0;     // seconds by the profiler, mean of the recorded steps
  double device = 0;   // seconds of kernels of a GPU in a step; 0: none
  double covered = 0;  // share of `step` that is self time of operators and kernels of ours
  double own = 0;      // share of `step` outside of them that is only there because they are recorded
  std::vector<OperatorRow> operators;
  std::vector<KernelRow> kernels;
  std::vector<ModuleRow> modules;    // each before the parts inside it, in the order of their first call
  std::vector<RoutineRow> routines;  // of a step more; MakeTables knows none
};

// Names of the columns of operators that they can be sorted by, the largest first: "self", "total", …
std::vector<std::string> SortColumns();

// Steps are the ranges of kStepRange. `request.sort` must be one of SortColumns, or empty: self time, on the GPU where
// there is one.
ProfileTables MakeTables(const std::vector<ProfiledEvent>& events, const ProfileRequest& request);

}  // namespace roofbench::observe
