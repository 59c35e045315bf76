// SPDX-License-Identifier: Apache-2.0
#include "lib/models/generation/token_ids.h"

#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "lib/base/files.h"
#include "lib/base/text.h"

namespace roofbench::models {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

// The limit of a list: eight bytes for each of eight million tokens.
constexpr std::size_t kMostBytes = 64 << 20;
// Characters of an argument that a message quotes.
constexpr std::size_t kShown = 40;

absl::StatusOr<std::string> ReadStandardInput() {
  std::string text;
  std::string block(1 << 16, '\0');
  while (std::cin.read(block.data(), static_cast<std::streamsize>(block.size())) || std::cin.gcount() > 0) {
    text.append(block, 0, static_cast<std::size_t>(std::cin.gcount()));
    if (text.size() > kMostBytes) {
      return InvalidArgumentError(
          StrCat("standard input does not end after the ", HumanBytes(kMostBytes), " that a list of ids may have"));
    }
  }
  return text;
}

// The text of a file, or `given` itself if it is the text.
absl::StatusOr<std::string> TextOf(const std::string& given) {
  if (given == "-") return ReadStandardInput();
  if (given.find_first_not_of("0123456789,; ") == std::string::npos) return given;
  absl::StatusOr<std::string> text = ReadFile(given, kMostBytes);
  // Probably a list with a typo.
  if (absl::IsNotFound(text.status()) && absl::ascii_isdigit(static_cast<unsigned char>(given.front()))) {
    if (absl::StatusOr<TokenIds> ids = ParseTokenIds("", absl::StrReplaceAll(given, {{";", ","}})); !ids.ok()) {
      return absl::NotFoundError(StrCat("not a file, and as a list of token ids", ids.status().message()));
    }
    return given;
  }
  if (text.ok()) return text;
  return absl::Status(text.status().code(), StrCat(text.status().message(), " (- reads standard input)"));
}

}  // namespace

absl::StatusOr<TokenIds> ParseTokenIds(std::string_view name, std::string_view text) {
  absl::StatusOr<TokenIds> ids = ParseNumbers(text, "a token id");
  if (ids.ok()) return ids;
  return InvalidArgumentError(StrCat(View(name), ": ", ids.status().message()));
}

namespace {

absl::StatusOr<std::string> NamedTextOf(std::string_view name, const std::string& given) {
  absl::StatusOr<std::string> text = TextOf(given);
  if (text.ok()) return text;
  return InvalidArgumentError(StrCat(View(name), "=", Excerpt(given, kShown), ": ", text.status().message()));
}

}  // namespace

absl::StatusOr<TokenIds> ReadTokenIds(std::string_view name, const std::string& given) {
  const absl::StatusOr<std::string> text = NamedTextOf(name, given);
  if (!text.ok()) return text.status();
  absl::StatusOr<TokenIds> ids = ParseTokenIds(name, *text);
  if (ids.ok() && ids->empty()) return InvalidArgumentError(StrCat(View(name), ": there are none"));
  return ids;
}

absl::StatusOr<std::vector<TokenIds>> ReadTokenLists(std::string_view name, const std::string& given) {
  const absl::StatusOr<std::string> text = NamedTextOf(name, given);
  if (!text.ok()) return text.status();
  std::vector<TokenIds> lists;
  std::size_t empty = 0;  // the number of the first empty one, from 1
  for (const auto& line : absl::StrSplit(*text, absl::ByAnyChar("\n;"))) {
    absl::StatusOr<TokenIds> ids = ParseTokenIds(name, std::string_view(line.data(), line.size()));
    if (!ids.ok()) return ids.status();
    if (ids->empty()) {
      if (empty == 0) empty = lists.size() + 1;
      continue;
    }
    if (empty != 0) {
      return InvalidArgumentError(StrCat(View(name), ": list ", empty, " has no token, and others follow"));
    }
    lists.push_back(*std::move(ids));
  }
  if (lists.empty()) return InvalidArgumentError(StrCat(View(name), ": there are none"));
  return lists;
}

}  // namespace roofbench::models
