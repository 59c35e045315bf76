// SPDX-License-Identifier: Apache-2.0
// Sums a profile by operator, by kernel and by part of the model. All figures are for one step.
#pragma once

#include <string>
#include <vector>

#include "lib/observe/profile/recorder.h"

namespace roofbench::observe {

struct ProfileRequest {
  int steps = 1;            // recorded
  int depth = 0;            // omits operators and parts of the model at this depth and deeper; 0: no limit
  std::string sort = {};    // one of SortColumns; empty: self time, on the GPU if there is one
  std::string kernel = {};  // names the step's kernel if the step opens no range; empty: the step is not a kernel
  double between = 0;       // seconds of an unprofiled step outside operators and our kernels
};

// Seconds, calls, FLOPs and bytes of one step. Shares are of the step's device time if known, otherwise of its time.
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

// On a GPU: its kernels. On a CPU: our kernels, and LibTorch's operators, whose loops are not named.
struct KernelRow {
  std::string name = {};
  std::string phase = {};  // "forward", "decode"; empty outside a phase
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
  double calls = 0;  // of its range; 0 in the backward pass, which opens none
  double self = 0;   // on the host
  double total = 0;  // with the parts inside it
  double total_device = 0;
  double flops = 0;
  double share = 0;
};

// A routine of oneDNN or MKL for one problem (its sizes), as logged by the library.
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
  double step = 0;     // seconds by the profiler's clock, mean of the recorded steps
  double device = 0;   // seconds of GPU kernels in a step
  double covered = 0;  // share of `step`: self time of operators and our kernels
  double own = 0;      // share of `step`: recording cost between them
  std::vector<OperatorRow> operators;
  std::vector<KernelRow> kernels;
  std::vector<ModuleRow> modules;    // parents first, in the order of their first call
  std::vector<RoutineRow> routines;  // of an additional step; MakeTables leaves it empty
};

// The columns that operators can be sorted by, largest first: "self", "total", …
std::vector<std::string> SortColumns();

// A step is a range of kStepRange.
ProfileTables MakeTables(const std::vector<ProfiledEvent>& events, const ProfileRequest& request);

}  // namespace roofbench::observe
