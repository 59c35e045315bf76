// SPDX-License-Identifier: Apache-2.0
// Small conversions of text and figures for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/string_view.h"

namespace roofbench {

// Abseil may have been built with a string_view of its own (Debian's is).
inline absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

std::string HumanTime(double seconds);                            // "12.3 µs", "4.56 ms": three digits
std::string HumanBytes(double bytes);                             // "1.50 GiB"
std::string HumanRate(double per_second, std::string_view unit);  // "12.3 GB/s", "1.20 TFLOP/s": decimal prefixes

// The 64-bit FNV-1a hash (RFC 9923): the same with every compiler and library, which std::hash is not.
uint64_t PortableHash(std::string_view text);

std::string FirstLine(std::string_view text);
std::string LastLine(std::string_view text);  // that is not blank; empty if there is none

// The pieces, joined by spaces, in lines of at most `width` bytes; a longer piece has a line of its own.
std::vector<std::string> Wrapped(const std::vector<std::string>& pieces, std::size_t width);

// The entry of `known` nearest to `text` by edit distance; empty if none is near (more than a third of its letters).
std::string Nearest(std::string_view text, const std::vector<std::string>& known);

}  // namespace roofbench
