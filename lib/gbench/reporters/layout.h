// SPDX-License-Identifier: Apache-2.0
// Places on a terminal: how wide it is, and names in lines of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace roofbench {

// Columns of the terminal behind a file descriptor: what COLUMNS says, else what the terminal says, else 120.
std::size_t TerminalWidth(int file);

// A name in lines of at most `width` columns, broken before a slash where one is near enough; the second and later ones
// begin with `indent`.
std::vector<std::string> NameLines(std::string name, std::size_t width, std::string_view indent);

}  // namespace roofbench
