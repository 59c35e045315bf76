// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/token_ids.h"

#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/text.h"

namespace roofbench::models {

absl::StatusOr<TokenIds> ParseTokenIds(std::string_view name, std::string_view text) {
  TokenIds ids;
  for (const auto& piece : absl::StrSplit(View(text), absl::ByAnyChar(", \t\r\n"), absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(piece, &ids.emplace_back()) || ids.back() < 0) {
      return absl::InvalidArgumentError(absl::StrCat(View(name), ": ", piece, " is no token id; expected 1,2,3"));
    }
  }
  return ids;
}

absl::StatusOr<TokenIds> ReadTokenIds(std::string_view name, const std::string& given) {
  std::ostringstream text;
  if (given == "-") {
    text << std::cin.rdbuf();
  } else if (given.find_first_not_of("0123456789, ") == std::string::npos) {
    text << given;
  } else {
    const std::ifstream file(given);
    if (!file) return absl::InvalidArgumentError(absl::StrCat(View(name), ": ", given, " cannot be read"));
    text << file.rdbuf();
  }
  absl::StatusOr<TokenIds> ids = ParseTokenIds(name, text.str());
  if (ids.ok() && ids->empty()) return absl::InvalidArgumentError(absl::StrCat(View(name), ": there are none"));
  return ids;
}

}  // namespace roofbench::models
