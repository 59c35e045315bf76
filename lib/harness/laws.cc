#include "lib/harness/laws.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/harness/text.h"

namespace roofbench {
namespace {

// Everything of a name but one axis.
std::string Without(const Point& point, const std::string& axis) {
  std::string rest;
  for (const AxisSpec& spec : point.axes()) {
    if (spec.name == axis) continue;
    // A size that follows the swept axis is part of the sweep.
    std::string value;
    for (const auto& [name, text] : point.values()) {
      if (name == spec.name) value = text;
    }
    if (value == spec.default_value && !value.empty()) continue;
    absl::StrAppend(&rest, rest.empty() ? "" : "/", spec.name, ":", value);
  }
  return rest;
}

}  // namespace

std::vector<Scaling> FitLaws(const std::vector<PlannedCase>& plan, const SecondsOf& seconds) {
  // family and law -> the other axes -> size -> seconds
  std::map<std::pair<const Family*, std::size_t>, std::map<std::string, std::map<double, double>>> series;
  for (const PlannedCase& planned : plan) {
    const double time = seconds(planned.name);
    if (time <= 0) continue;
    for (std::size_t i = 0; i < planned.family->laws().size(); ++i) {
      const std::string& axis = planned.family->laws()[i].axis;
      series[{planned.family, i}][Without(planned.point, axis)][planned.point.Number(axis)] = time;
    }
  }
  std::vector<Scaling> scalings;
  for (const auto& [law_key, groups] : series) {
    const Law& law = law_key.first->laws()[law_key.second];
    for (const auto& [rest, points] : groups) {
      std::vector<double> sizes;
      std::vector<double> times;
      for (const auto& [size, time] : points) {
        sizes.push_back(size);
        times.push_back(time);
      }
      const auto fit = timing::FitPower(sizes, times);
      if (!fit) continue;
      Scaling scaling{law_key.first->name(), law.axis, rest, law.exponent, *fit, 0};
      for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
        const double slope = std::log(times[i + 1] / times[i]) / std::log(sizes[i + 1] / sizes[i]);
        if (slope >= law.exponent / 2) break;
        scaling.overhead_below = sizes[i];
      }
      scalings.push_back(std::move(scaling));
    }
  }
  return scalings;
}

std::string DescribeLaws(const std::vector<Scaling>& scalings) {
  if (scalings.empty()) return {};
  std::string text = "\nGrowth of time: fitted exponent (95 % interval) against the expected one\n";
  for (const Scaling& s : scalings) {
    absl::StrAppend(
        &text, absl::StrFormat("  %-58s %s^%.2f (%.2f to %.2f), expected %s^%g", absl::StrCat(s.family, "/", s.at),
                               s.axis, s.fit.exponent, s.fit.interval.low, s.fit.interval.high, s.axis, s.expected));
    if (s.overhead_below > 0) {
      absl::StrAppend(&text, absl::StrFormat("\n%62soverhead-bound up to %s=%g", "", s.axis, s.overhead_below));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace roofbench
