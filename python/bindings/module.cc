// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include "python/bindings/bindings.h"
#include "roofbench_version.h"

namespace nb = nanobind;

NB_MODULE(_core, core) {
  core.doc() = "The C++ half: sampler, roofs, formulas of work, comparison and results. Times are in seconds";
  roofbench::python::BindCosts(core);
  nb::list formulas;  // and Cost: what roofbench.work has of this module
  for (const auto& [name, value] : nb::cast<nb::dict>(core.attr("__dict__"))) {
    if (!nb::cast<std::string>(name).starts_with("_")) formulas.append(name);
  }
  core.attr("__all__") = formulas;
  core.attr("version") = ROOFBENCH_VERSION;
  core.attr("git_revision") = ROOFBENCH_GIT_REVISION;
  roofbench::python::BindComparison(core);
  roofbench::python::BindMachine(core);
  roofbench::python::BindCases(core);
  roofbench::python::BindProcess(core);
  roofbench::python::BindResults(core);
}
