// SPDX-License-Identifier: Apache-2.0
// Lists of token ids from flags and files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace roofbench::models {

using TokenIds = std::vector<int64_t>;

// Numbers from 0, separated by commas or white space; InvalidArgument names anything else. Errors call the list `name`.
absl::StatusOr<TokenIds> ParseTokenIds(std::string_view name, std::string_view text);

// At least one id. `given`: the ids, a file of them, or "-" for standard input.
absl::StatusOr<TokenIds> ReadTokenIds(std::string_view name, const std::string& given);
// Several lists, separated by newlines or semicolons. Only trailing ones may be empty.
absl::StatusOr<std::vector<TokenIds>> ReadTokenLists(std::string_view name, const std::string& given);

}  // namespace roofbench::models
