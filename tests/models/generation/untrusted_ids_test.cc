// SPDX-License-Identifier: Apache-2.0
// Files of token ids with changes of some of their bytes: each is refused in one line, or is read as the numbers that
// it has. ROOFBENCH_FUZZ_ROUNDS sets how many there are.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/models/generation/token_ids.h"
#include "tests/base/temp_folder.h"

namespace roofbench::models {
namespace {

TEST(UntrustedIds, AreRefusedOrReadAsTheyAre) {
  const char* const given = std::getenv("ROOFBENCH_FUZZ_ROUNDS");
  const int rounds = given == nullptr ? 200 : std::atoi(given);
  const TempFolder folder;
  const std::string path = folder / "ids";
  constexpr std::string_view kWhole = "1,2, 30\n4\t0;12345678901\n\n9223372036854775807 6\n";
  constexpr std::string_view kLikely = "0123456789 ,;\n\t-+.exX\r\0\x1b\xff\xc2\xa0";
  int refused = 0;
  int read = 0;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    std::mt19937_64 bits(static_cast<uint64_t>(round));
    const auto below = [&](std::size_t count) { return static_cast<std::size_t>(bits() % count); };
    std::string text(kWhole);
    for (std::size_t changes = below(4); changes > 0 && !text.empty(); --changes) {
      const std::size_t at = below(text.size());
      const char character = below(2) == 0 ? static_cast<char>(below(256)) : kLikely[below(kLikely.size())];
      const std::size_t kind = below(4);
      if (kind == 0) text[at] = character;
      if (kind == 1) text.insert(at, 1 + below(30), character);
      if (kind == 2) text.erase(at, 1 + below(9));
      if (kind == 3) text.resize(at);
    }
    std::ofstream(path, std::ios::binary) << text;
    const auto lists = ReadTokenLists("--prompt_ids", path);
    if (!lists.ok()) {
      ++refused;
      EXPECT_EQ(lists.status().message().find('\n'), std::string::npos) << lists.status();
      EXPECT_EQ(lists.status().message().find('\x1b'), std::string::npos);
      continue;
    }
    ++read;
    // The digits, in their order, are those of the file but for leading zeros.
    std::string numbers;
    for (const TokenIds& list : *lists) {
      for (const int64_t id : list) {
        EXPECT_GE(id, 0);
        absl::StrAppend(&numbers, id, " ");
      }
    }
    std::string expected;
    std::string digits;
    for (const char character : text + "\n") {
      if (character >= '0' && character <= '9') {
        digits += character;
      } else if (!digits.empty()) {
        const std::size_t first = digits.find_first_not_of('0');
        absl::StrAppend(&expected, first == std::string::npos ? "0" : digits.substr(first), " ");
        digits.clear();
      }
    }
    EXPECT_EQ(numbers, expected);
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace roofbench::models
