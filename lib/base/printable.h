// SPDX-License-Identifier: Apache-2.0
// Text of strangers (names in a checkpoint, folders, exceptions), made harmless for a terminal and for readers of text.
#pragma once

#include <string>
#include <string_view>

namespace roofbench {

// The text on one line: control characters, characters without a width of their own or that turn the direction of
// others, and bytes that are no UTF-8 as "\x1b"; everything else as it is.
std::string Printable(std::string_view text);

// Whether Printable would leave it as it is.
bool IsPrintable(std::string_view text);

}  // namespace roofbench
