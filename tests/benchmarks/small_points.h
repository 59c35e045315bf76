// SPDX-License-Identifier: Apache-2.0
// Small points of every registered family.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/suite/family.h"
#include "lib/suite/plan.h"

namespace roofbench {

// A model's own axes: heads divide the width and share keys and values, and two blocks are a first and a last one.
inline const std::map<std::string, std::string> kSmallModel = {
    {"d_model", "48"}, {"d_ff", "80"}, {"layers", "2"}, {"heads", "3"}, {"kv_heads", "1"}};

// One small point for each combination of the choices (implementation, precision, cache) that are registered.
inline std::vector<PlannedCase> SmallPoints() {
  std::vector<PlannedCase> points;
  for (const Family& family : Families()) {
    std::map<std::string, PlannedCase> smallest;
    for (Point point : family.Points()) {
      // One compilation each: compiled_slow_test has one.
      if (point.Has("impl") && point.Text("impl") == "compiled") continue;
      std::string kind;
      for (const AxisSpec& axis : family.axes()) {
        // Language models of a kind differ in size alone.
        if (axis.name == "model") {
          point = point.With("model", point.Text("model").find("mixtral") == 0 ? "tiny_mixtral" : "tiny_llama");
        }
        // A few tokens prove as much as many, one step of the model each.
        if (axis.name == "new") {
          if (!axis.choices.empty() || point.Int("new") > 3) point = point.With("new", "3");
          continue;
        }
        // Ranks that exchange data have tests of their own: collectives_test.
        if (axis.name == kRanksAxis) {
          point = point.With(axis.name, "1");
          continue;
        }
        // Two threads are enough to differ from one, and no case need be loaded for long before it.
        if (axis.name == kThreadsAxis && point.Number(axis.name) > 2) point = point.With(axis.name, "2");
        if (axis.name == "after") point = point.With(axis.name, "0");
        if (!axis.choices.empty() || axis.fractions) {
          // Presets of a shape become equal once the shape is small.
          if (axis.name != "size") kind += point.Text(axis.name) + "/";
          continue;
        }
        if (const auto shape = kSmallModel.find(axis.name); shape != kSmallModel.end()) {
          point = point.With(axis.name, shape->second);
          continue;
        }
        // Odd multiples of 16 exercise edges of kernels and are valid for every packed format; int4 weights come in
        // whole groups.
        const int64_t small = point.Has("group") && !point.Has("model") ? 3 * point.Int("group") : 48;
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
