// SPDX-License-Identifier: Apache-2.0
// What cases were called before, so that old filters, axes and results are understood.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace roofbench {

// A family, an axis of it, or values of that axis that have another name today. A row of Family::Renamed.
struct Rename {
  // The family by its old name, where it has another one now.
  std::string old_family = {};
  // The axis by its old name; the same as `axis` where only values changed.
  std::string old_axis = {};
  std::string axis = {};
  // Old value -> today's.
  std::vector<std::pair<std::string, std::string>> values = {};

  // Today's name of a value; the value itself where it has no other.
  const std::string& Today(const std::string& value) const;
  // What a value of today was called; the value itself where it had no other name.
  const std::string& Before(const std::string& value) const;
};

}  // namespace roofbench
