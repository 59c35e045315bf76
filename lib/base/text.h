// SPDX-License-Identifier: Apache-2.0
// Text for people: units, columns, lines, and untrusted text made safe for a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace roofbench {

// Abseil may have been built with its own string_view (Debian's is).
inline absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

std::string HumanTime(double seconds);                            // "12.3 µs", "4.56 ms": three digits
std::string HumanBytes(double bytes);                             // "1.50 GiB"
std::string HumanRate(double per_second, std::string_view unit);  // "12.3 GB/s", "1.20 TFLOP/s": decimal prefixes
std::string HumanShare(double fraction);                          // "0.80 %", "92.1 %"
std::string HumanHalfWidth(double fraction);                      // the same of an interval, and ">100 %"
std::string Counted(std::size_t number, std::string_view noun);   // "1 case", "2 cases"

// The 64-bit FNV-1a hash (RFC 9923). Unlike std::hash, it does not depend on the compiler or the library.
uint64_t PortableHash(std::string_view text);

std::string FirstLine(std::string_view text);

// Joins the pieces with spaces into lines of at most `width` bytes; a longer piece has its own line.
std::vector<std::string> Wrapped(const std::vector<std::string>& pieces, std::size_t width);

// Whole numbers from 0, separated by commas or white space. InvalidArgument: "x is not `what`; expected 1,2,3".
absl::StatusOr<std::vector<int64_t>> ParseNumbers(std::string_view text, std::string_view what);

// The entry of `known` with the smallest edit distance to `text`; empty if all differ in more than a third of its
// letters.
std::string Nearest(std::string_view text, const std::vector<std::string>& known);

// The columns that UTF-8 text takes on a terminal; every character counts as one.
std::size_t DisplayWidth(std::string_view text);
std::string PadRight(std::string text, std::size_t width);  // text first
std::string PadLeft(std::string text, std::size_t width);   // text last
// The first `width` columns of the text.
std::string Clipped(std::string_view text, std::size_t width);

// Untrusted text (tensor names, paths, exceptions) on one line that is safe to print: control characters, characters
// of zero width or that change the text direction, and bytes that are not UTF-8 become "\x1b"; the rest is unchanged.
std::string Printable(std::string_view text);
// The same in at most `width` columns, and an ellipsis if that is not all of it.
std::string Excerpt(std::string_view text, std::size_t width);
// Whether Printable leaves the text unchanged.
bool IsPrintable(std::string_view text);

}  // namespace roofbench
