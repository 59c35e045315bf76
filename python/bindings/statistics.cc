// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/statistics.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "lib/timing/series.h"
#include "python/bindings/bindings.h"

namespace roofbench::python {

namespace nb = nanobind;
using namespace nb::literals;
using Values = std::vector<double>;

void BindStatistics(nb::module_& core) {
  nb::class_<timing::Summary>(core, "Summary")
      .def_ro("samples", &timing::Summary::samples)
      .def_ro("median", &timing::Summary::median)
      .def_ro("mean", &timing::Summary::mean)
      .def_ro("stddev", &timing::Summary::stddev)
      .def_ro("min", &timing::Summary::min)
      .def_ro("p95", &timing::Summary::p95)
      .def_ro("ci", &timing::Summary::ci);
  core.def(
      "summarize", [](const Values& values) { return timing::Summarize(values); }, "values"_a);
  core.def(
      "median", [](const Values& values) { return timing::Median(values); }, "values"_a);
  core.def(
      "quantile", [](const Values& values, double q) { return timing::Quantile(values, q); }, "values"_a, "q"_a);
  core.def(
      "median_interval",
      [](const Values& values) {
        const timing::Interval interval = timing::SeriesMedianInterval(values);
        return std::pair(interval.low, interval.high);
      },
      "values"_a);
  core.def(
      "lag_one_correlation", [](const Values& values) { return timing::LagOneCorrelation(values); }, "values"_a);
}

}  // namespace roofbench::python
