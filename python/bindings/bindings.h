// SPDX-License-Identifier: Apache-2.0
// The parts of the extension `_core`. The build writes its stub, _core.pyi, from their signatures and texts.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lib/results/outcome.h"
#include "lib/workload/dtype.h"

namespace roofbench::python {

void BindCosts(nanobind::module_& core);
void BindComparison(nanobind::module_& core);
void BindMachine(nanobind::module_& core);
void BindResults(nanobind::module_& core);

// A wrong argument, which Python sees as a ValueError: "dtype 'half': expected fp32, tf32, …".
template <typename Rows, typename NameOf = std::identity>
[[noreturn]] void RefuseName(std::string_view what, std::string_view given, const Rows& rows, NameOf name = {}) {
  std::string text = std::string(what) + " '" + std::string(given) + "': expected ";
  for (bool first = true; const auto& row : rows) {
    text.append(first ? "" : ", ").append(std::invoke(name, row));
    first = false;
  }
  throw std::invalid_argument(text);
}

workload::Dtype DtypeNamed(std::string_view name);

// The samples of a Python callable.
struct Measurement {
  Outcome outcome;
  std::string impossible = {};                 // why the step cannot have done its work; empty: it can
  nanobind::object raised = nanobind::none();  // the exception that ended it after the first chunk of samples
  nanobind::object last_result = nanobind::none();
  double page_faults = 0;  // of a call, with what precedes it
};

}  // namespace roofbench::python
