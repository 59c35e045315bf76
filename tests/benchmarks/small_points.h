// Small points of every registered family.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/harness/family.h"
#include "lib/harness/plan.h"

namespace roofbench {

// One small point for each combination of the choices (implementation, precision, cache) that are registered.
inline std::vector<PlannedCase> SmallPoints() {
  std::vector<PlannedCase> points;
  for (const Family& family : Families()) {
    std::map<std::string, PlannedCase> smallest;
    for (Point point : family.Points(Suite::kFull)) {
      std::string kind;
      for (const AxisSpec& axis : family.axes()) {
        if (!axis.choices.empty()) {
          kind += point.Text(axis.name) + "/";
          continue;
        }
        // Odd multiples of 16 exercise edges of kernels and are valid for every packed format; int4 weights come in
        // whole groups.
        const int64_t small = point.Has("group") ? 3 * point.Int("group") : 48;
        if (axis.name != "bytes" && point.Int(axis.name) > small) point = point.With(axis.name, std::to_string(small));
        if (axis.name == "bytes" && point.Int(axis.name) > 65536) point = point.With(axis.name, "65536");
      }
      smallest.try_emplace(kind, PlannedCase{&family, point, point.Name()});
    }
    for (auto& [kind, planned] : smallest) points.push_back(planned);
  }
  return points;
}

}  // namespace roofbench
