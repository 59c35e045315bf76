// SPDX-License-Identifier: Apache-2.0
// The samples of a Python callable.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "lib/results/outcome.h"

namespace roofbench::python {

struct Measurement {
  Outcome outcome;
  std::string impossible = {};                 // why the step cannot have done its work; empty: it can
  nanobind::object raised = nanobind::none();  // the exception that ended it after the first chunk of samples
  nanobind::object last_result = nanobind::none();
};

}  // namespace roofbench::python
