// SPDX-License-Identifier: Apache-2.0
// Tables whose row names are the values of an axis.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace roofbench {

// `row.name` of every row.
template <typename Rows>
std::vector<std::string> NamesOf(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

// Throws std::logic_error if no row has the name.
template <typename Rows>
const auto& RowOf(const Rows& rows, std::string_view name) {
  for (const auto& row : rows) {
    if (row.name == name) return row;
  }
  throw std::logic_error("no row " + std::string(name));
}

}  // namespace roofbench
