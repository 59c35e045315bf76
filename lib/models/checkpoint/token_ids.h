// SPDX-License-Identifier: Apache-2.0
// Lists of token ids, as people and files write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace roofbench::models {

using TokenIds = std::vector<int64_t>;

// Numbers from 0 with commas or white space between them; InvalidArgument names what is none. `name` is what the list
// is called in errors.
absl::StatusOr<TokenIds> ParseTokenIds(std::string_view name, std::string_view text);

// At least one of them: `given` are the ids themselves, a file of them, or "-" for standard input.
absl::StatusOr<TokenIds> ReadTokenIds(std::string_view name, const std::string& given);
// The same of several lists: each has a line of its own, or ends with a semicolon. None may be empty, but for lines
// after the last one.
absl::StatusOr<std::vector<TokenIds>> ReadTokenLists(std::string_view name, const std::string& given);

}  // namespace roofbench::models
