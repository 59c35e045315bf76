// SPDX-License-Identifier: Apache-2.0
// Text in columns: how many it takes, padded to more of them, and cut to fewer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace roofbench {

// Columns that UTF-8 text takes, of characters that take one each.
std::size_t DisplayWidth(std::string_view text);

std::string PadRight(std::string text, std::size_t width);  // text first
std::string PadLeft(std::string text, std::size_t width);   // text last

// The first `width` columns of it.
std::string Clipped(std::string_view text, std::size_t width);

}  // namespace roofbench
