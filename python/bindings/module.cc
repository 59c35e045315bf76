// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/bindings.h"
#include "roofbench_version.h"

NB_MODULE(_core, core) {
  core.attr("__version__") = ROOFBENCH_VERSION;
  core.attr("git_revision") = ROOFBENCH_GIT_REVISION;
  roofbench::python::BindCosts(core);
  roofbench::python::BindComparison(core);
  roofbench::python::BindMachine(core);
  roofbench::python::BindResults(core);
}
