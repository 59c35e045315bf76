// Fits how time grows along an axis and holds it against the law that the family expects.
#pragma once

#include <string>
#include <vector>

#include "lib/harness/family.h"
#include "lib/harness/plan.h"
#include "lib/timing/statistics.h"

namespace roofbench {

// One series of cases that differ along one axis alone.
struct Scaling {
  std::string family;
  std::string axis;
  std::string at;  // what the other axes are: "impl:eager/dtype:fp32"
  double expected = 0;
  timing::PowerFit fit;       // over all points of the series
  double overhead_below = 0;  // up to this size the time grows less than half as fast as expected; 0: nowhere
};

// Seconds of a case by name; a negative number if it was not measured.
using SecondsOf = std::function<double(const std::string& name)>;

// One entry for each law and each series of three or more measured points.
std::vector<Scaling> FitLaws(const std::vector<PlannedCase>& plan, const SecondsOf& seconds);

// The lines that end a run; empty if there is no series.
std::string DescribeLaws(const std::vector<Scaling>& scalings);

}  // namespace roofbench
