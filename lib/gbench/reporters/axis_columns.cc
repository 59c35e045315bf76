// SPDX-License-Identifier: Apache-2.0
#include "lib/gbench/reporters/axis_columns.h"

#include "lib/suite/case_names.h"

namespace roofbench {

AxesOfRow AxisColumns(const Session& session) {
  return [&session](const LibraryRun& run) {
    AxisValues axes = AxesOf(session.plan().at(PlanIndex(run)).point);
    std::erase_if(axes, [&](const auto& axis) { return run.counters.count(axis.first) > 0; });
    return axes;
  };
}

}  // namespace roofbench
