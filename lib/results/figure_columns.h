// SPDX-License-Identifier: Apache-2.0
// The columns of figures in a table of cases, each after a blank.
#pragma once

#include <cstddef>
#include <string_view>

namespace roofbench {

struct FigureColumn {
  std::string_view name;
  std::size_t width;
};
inline constexpr FigureColumn kFigureColumns[] = {{"time", 9}, {"FLOP/s", 13},   {"bytes/s", 10},
                                                  {"roof", 7}, {"reference", 8}, {"ci", 7}};

}  // namespace roofbench
