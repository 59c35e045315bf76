// SPDX-License-Identifier: Apache-2.0
// Few lines for many names of cases, for golden lists.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace roofbench {

using Rows = std::vector<std::vector<std::string>>;  // families, axis:values, …, with commas between alternatives

// Joins rows that differ in one part alone, by numbers in ascending order.
inline Rows JoinedAlong(std::size_t part, const Rows& rows) {
  Rows joined;
  std::map<std::string, std::size_t> places;
  for (const std::vector<std::string>& row : rows) {
    std::vector<std::string> others = row;
    std::size_t begin = 0;
    if (part < row.size()) others[part].resize(begin = row[part].find(':') + 1);
    const auto [found, is_new] = places.try_emplace(absl::StrJoin(others, "/"), joined.size());
    if (is_new) {
      joined.push_back(row);
      continue;
    }
    std::string& at = joined[found->second][part];
    std::vector<std::string> values = absl::StrSplit(at.substr(begin) + "," + row[part].substr(begin), ',');
    std::ranges::sort(values, {}, [](const std::string& value) { return std::pair(value.size(), value); });
    at = at.substr(0, begin) + absl::StrJoin(values, ",");
  }
  return joined;
}

// Lines in which {a,b} stands for alternatives.
inline std::vector<std::string> Compact(const std::vector<std::string>& names) {
  Rows rows;
  std::size_t longest = 0;
  for (const std::string& name : names) {
    rows.push_back(absl::StrSplit(name, '/'));
    longest = std::max(longest, rows.back().size());
  }
  for (std::size_t before = rows.size() + 1; rows.size() < before;) {
    before = rows.size();
    for (std::size_t part = 1; part <= longest; ++part) rows = JoinedAlong(part % longest, rows);  // families last
  }
  std::vector<std::string> lines;
  for (std::vector<std::string>& row : rows) {
    for (std::string& part : row) {
      if (part.find(',') != std::string::npos) part = part.insert(part.find(':') + 1, "{") + "}";
    }
    lines.push_back(absl::StrJoin(row, "/"));
  }
  return lines;
}

}  // namespace roofbench
