// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/exchanges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace roofbench::timing {
namespace {

using testing::ElementsAreArray;
using testing::SizeIs;

std::vector<int> Numbers(std::size_t count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

Exchanges::Operand Of(std::vector<int>& numbers) {
  return {reinterpret_cast<std::byte*>(numbers.data()), sizeof(int), std::ssize(numbers)};
}

class ExchangesTest : public testing::TestWithParam<std::size_t> {};

TEST_P(ExchangesTest, PermuteFewElementsAndTakeThatBack) {
  const std::vector<int> before = Numbers(GetParam());
  std::vector<int> numbers = before;
  Exchanges exchanges({Of(numbers)});
  for (int sample = 0; sample < 200; ++sample) {
    exchanges.Begin(1);
    exchanges.Next();  // of a sample of one step: nothing more
    EXPECT_THAT(exchanges.InEffect(), SizeIs(1));
    std::size_t moved = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) moved += numbers[i] != before[i] ? 1 : 0;
    EXPECT_EQ(moved, 2 * std::max<std::size_t>(1, numbers.size() / 1024));
    std::vector<int> sorted = numbers;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, before);
  }
  exchanges.TakeBack();
  EXPECT_THAT(numbers, ElementsAreArray(before));
}

INSTANTIATE_TEST_SUITE_P(Sizes, ExchangesTest, testing::Values(2, 3, 1000, 1024, 2047, 5000));

TEST(Exchanges, FewOfEachOperandChangePlacesOrComeBack) {
  const std::vector<int> before = Numbers(5000);
  std::vector<int> one = before, other = before;
  Exchanges exchanges({Of(one), Of(other)});
  for (int step = 0; step < 50; ++step) {
    exchanges.Begin(1);
    EXPECT_NE(one, before);
    EXPECT_NE(other, before);
    EXPECT_THAT(exchanges.InEffect(), SizeIs(2));
    if (step % 2 == 0) continue;
    exchanges.Begin(1);
    exchanges.TakeBack();
    EXPECT_THAT(one, ElementsAreArray(before));
    EXPECT_THAT(other, ElementsAreArray(before));
    EXPECT_THAT(exchanges.InEffect(), SizeIs(0));
  }
}

TEST(Exchanges, StepsOfOneSampleFindDifferentValues) {
  std::vector<int> numbers = Numbers(500), more = Numbers(70);
  const std::vector<int> before = numbers;
  Exchanges exchanges({Of(numbers), Of(more)});
  for (int sample = 0; sample < 20; ++sample) {
    exchanges.Begin(30);
    std::set<std::vector<int>> seen;
    for (int step = 0; step < 30; ++step) {
      exchanges.Next();
      std::vector<int> both = numbers;
      both.insert(both.end(), more.begin(), more.end());
      seen.insert(both);
    }
    EXPECT_THAT(seen, SizeIs(testing::Ge(29)));  // two exchanges may take each other back
  }
  exchanges.TakeBack();
  EXPECT_THAT(numbers, ElementsAreArray(before));
}

// What depends on no order changes as well, and what looks for pieces misses them.
TEST(Exchanges, SingleElementsChangePlacesWithSpareOnes) {
  std::vector<int> numbers = Numbers(5000), spare = {-1, -2, -3, -4, -5, -6, -7, -8};
  const std::vector<int> before = numbers, spare_before = spare;
  Exchanges::Operand operand = Of(numbers);
  operand.spare = reinterpret_cast<std::byte*>(spare.data());
  operand.spares = std::ssize(spare);
  Exchanges exchanges({operand});
  std::set<std::vector<int>> seen;
  for (int sample = 0; sample < 20; ++sample) {
    exchanges.Begin(1);
    EXPECT_THAT(exchanges.InEffect(), SizeIs(1 + SinglesOf(5000)));
    EXPECT_GE(std::count_if(numbers.begin(), numbers.end(), [](int number) { return number < 0; }), 1);
    std::vector<int> copy = before, elsewhere = spare_before;
    for (const Exchanges::Pair& pair : exchanges.InEffect()) {
      std::vector<int>& others = pair.with_spare ? elsewhere : copy;
      std::swap_ranges(copy.begin() + pair.one, copy.begin() + pair.one + pair.length, others.begin() + pair.other);
    }
    EXPECT_THAT(copy, ElementsAreArray(numbers));
    seen.insert(numbers);
  }
  EXPECT_THAT(seen, SizeIs(20));
  exchanges.TakeBack();
  EXPECT_THAT(numbers, ElementsAreArray(before));
  EXPECT_THAT(spare, ElementsAreArray(spare_before));
}

TEST(Exchanges, OfManyLinesOfAnArrayOthersTakePartInEachSample) {
  constexpr int64_t kLines = 100, kElements = 8;
  std::vector<int> numbers = Numbers(kLines * kElements + kElements);
  const std::vector<int> before = numbers;
  std::vector<Exchanges::Operand> operands;
  for (int64_t line = 0; line <= kLines; ++line) {
    auto* const first = reinterpret_cast<std::byte*>(numbers.data() + line * kElements);
    operands.push_back({first, sizeof(int), kElements, nullptr, 0, /*array=*/line / kLines});
  }
  Exchanges exchanges(operands);
  std::set<int64_t> seen;
  for (int sample = 0; sample < 100; ++sample) {
    exchanges.Begin(1);
    const std::vector<Exchanges::Pair> pairs = exchanges.InEffect();
    ASSERT_THAT(pairs, SizeIs(Exchanges::kMostOfArray + 1));
    EXPECT_EQ(pairs.back().operand, kLines);
    for (const Exchanges::Pair& pair : pairs) seen.insert(pair.operand);
  }
  EXPECT_THAT(seen, SizeIs(testing::Gt(90U)));
  exchanges.TakeBack();
  EXPECT_THAT(numbers, ElementsAreArray(before));
}

// Nothing is left that is worth being brought up to date.
TEST(Exchanges, LargePiecesChangePlacesWhereThereIsTime) {
  std::vector<int> numbers = Numbers(30000);
  const std::vector<int> before = numbers;
  const auto moved = [&] {
    std::size_t count = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) count += numbers[i] != before[i] ? 1 : 0;
    return count;
  };
  Exchanges always({Of(numbers)}, /*share_of_large_pieces=*/1);
  for (int sample = 0; sample < 20; ++sample) {
    always.Begin(1);
    EXPECT_EQ(moved(), 20000);
  }
  always.TakeBack();
  EXPECT_THAT(numbers, ElementsAreArray(before));
  Exchanges hardly({Of(numbers)}, /*share_of_large_pieces=*/1e-9);
  hardly.Begin(1);
  EXPECT_EQ(moved(), 20000);
  for (int sample = 0; sample < 20; ++sample) {
    hardly.Begin(1);
    EXPECT_EQ(moved(), 58);
  }
}

TEST(Exchanges, CanBeRepeatedElsewhere) {
  std::vector<int> numbers = Numbers(3000);
  std::vector<int> copy = numbers;
  Exchanges exchanges({Of(numbers)});
  exchanges.Begin(8);
  for (int step = 0; step < 5; ++step) exchanges.Next();
  for (const Exchanges::Pair& pair : exchanges.InEffect()) {
    std::swap_ranges(copy.begin() + pair.one, copy.begin() + pair.one + pair.length, copy.begin() + pair.other);
  }
  EXPECT_THAT(copy, ElementsAreArray(numbers));
}

TEST(Exchanges, NothingToExchange) {
  Exchanges exchanges({});
  exchanges.Begin(5);
  exchanges.Next();
  exchanges.TakeBack();
  EXPECT_THAT(exchanges.InEffect(), SizeIs(0));
}

TEST(Exchanges, LooksAreAtRandomAndBecomeRare) {
  std::set<std::vector<int>> plans;
  for (int run = 0; run < 20; ++run) {
    Exchanges exchanges({});
    std::vector<int> looks;
    for (int sample = 0; sample < 5000; ++sample) {
      if (exchanges.IsLookDue()) looks.push_back(sample);
    }
    EXPECT_GE(looks.size(), 8);
    EXPECT_LE(looks.size(), 60);
    EXPECT_LT(looks.front(), 3);
    plans.insert(looks);
  }
  EXPECT_GT(plans.size(), 15);
}

}  // namespace
}  // namespace roofbench::timing
