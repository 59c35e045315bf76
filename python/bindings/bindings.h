// SPDX-License-Identifier: Apache-2.0
// The parts of the extension `_core`, which src/roofbench/_core.pyi describes.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lib/workload/dtype.h"

namespace roofbench::python {

void BindCosts(nanobind::module_& core);
void BindComparison(nanobind::module_& core);
void BindMachine(nanobind::module_& core);
void BindResults(nanobind::module_& core);

// A wrong argument, which Python sees as a ValueError: "dtype 'half': expected fp32, tf32, …".
template <typename Names>
[[noreturn]] void RefuseName(std::string_view what, std::string_view given, const Names& names) {
  std::string text = std::string(what) + " '" + std::string(given) + "': expected ";
  for (bool first = true; const auto& name : names) {
    text.append(first ? "" : ", ").append(name);
    first = false;
  }
  throw std::invalid_argument(text);
}

workload::Dtype DtypeNamed(std::string_view name);

}  // namespace roofbench::python
