// SPDX-License-Identifier: Apache-2.0
// The columns of a profile's tables: what each is called, and what it shows of a row.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "lib/observe/profile/tables.h"

namespace roofbench::observe {

enum class Quantity { kName, kText, kCount, kSeconds, kFlops, kBytes, kShare };

template <typename Row>
struct Column {
  std::string_view key;   // in CSV and JSON
  std::string_view head;  // in text; empty: not there
  Quantity quantity;
  std::variant<std::string Row::*, double Row::*, double (Row::*)() const> value;

  std::string Text(const Row& row) const { return row.*std::get<std::string Row::*>(value); }
  double Number(const Row& row) const {
    if (const auto* const method = std::get_if<double (Row::*)() const>(&value)) return (row.**method)();
    return row.*std::get<double Row::*>(value);
  }
  bool IsText() const { return std::holds_alternative<std::string Row::*>(value); }
};

std::span<const Column<OperatorRow>> OperatorColumns();
std::span<const Column<KernelRow>> KernelColumns();
std::span<const Column<ModuleRow>> ModuleColumns();
std::span<const Column<RoutineRow>> RoutineColumns();

}  // namespace roofbench::observe
