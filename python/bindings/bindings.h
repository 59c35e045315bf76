// SPDX-License-Identifier: Apache-2.0
// The parts of the extension `_core`. The build writes its stub, _core.pyi, from their signatures and texts.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lib/workload/dtype.h"

namespace roofbench::python {

void BindCases(nanobind::module_& core);
void BindCosts(nanobind::module_& core);
void BindComparison(nanobind::module_& core);
void BindMachine(nanobind::module_& core);
void BindProcess(nanobind::module_& core);
void BindResults(nanobind::module_& core);

// The row of a table that Python names. Python sees a wrong name as a ValueError: "dtype 'half': expected fp32, tf32,
// …".
template <typename Rows, typename NameOf = std::identity>
const auto& RowNamed(std::string_view what, std::string_view given, const Rows& rows, NameOf name = {}) {
  std::string known;
  for (const auto& row : rows) {
    if (std::invoke(name, row) == given) return row;
    known.append(known.empty() ? "" : ", ").append(std::invoke(name, row));
  }
  throw std::invalid_argument(std::string(what) + " '" + std::string(given) + "': expected " + known);
}

workload::Dtype DtypeNamed(std::string_view name);

}  // namespace roofbench::python
