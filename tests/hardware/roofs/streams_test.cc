// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/kernels/simd/isa.h"

namespace roofbench::hardware {
namespace {

constexpr std::size_t kGuardWords = 64;  // on either side of what a stream may touch
constexpr uint64_t kGuard = 0x5afe5afe5afe5afe;

// Line-aligned words between two guards.
class Words {
 public:
  Words(std::size_t bytes, uint64_t seed) : words_(bytes / sizeof(uint64_t) + 2 * kGuardWords + kAlignWords, kGuard) {
    const auto address = reinterpret_cast<std::uintptr_t>(words_.data());
    begin_ = words_.data() + (64 - address % 64) % 64 / sizeof(uint64_t) + kGuardWords;
    count_ = bytes / sizeof(uint64_t);
    for (std::size_t i = 0; i < count_; ++i) begin_[i] = (seed + i) * 0x9e3779b97f4a7c15;
  }

  std::byte* data() { return reinterpret_cast<std::byte*>(begin_); }
  std::vector<uint64_t> Values() const { return {begin_, begin_ + count_}; }
  bool GuardsIntact() const {
    return std::all_of(begin_ - kGuardWords, begin_, [](uint64_t word) { return word == kGuard; }) &&
           std::all_of(begin_ + count_, begin_ + count_ + kGuardWords, [](uint64_t word) { return word == kGuard; });
  }

 private:
  static constexpr std::size_t kAlignWords = 8;
  std::vector<uint64_t> words_;
  uint64_t* begin_ = nullptr;
  std::size_t count_ = 0;
};

uint64_t Sum(const std::vector<uint64_t>& words) {
  uint64_t sum = 0;
  for (const uint64_t word : words) sum += word;
  return sum;
}

// The contents that a stream must leave in `to`.
std::vector<uint64_t> Expected(StreamKind kind, const std::vector<uint64_t>& to, const std::vector<uint64_t>& from) {
  std::vector<uint64_t> expected = to;
  if (kind == StreamKind::kCopy) expected = from;
  if (kind == StreamKind::kWrite) expected.assign(to.size(), kWritePattern);
  if (kind == StreamKind::kUpdate) {
    for (uint64_t& word : expected) ++word;
  }
  return expected;
}

// The kIsaLevels that differ in the width of vectors; one that this processor lacks is tested as the next.
constexpr kernels::IsaLevel kWidths[] = {
    {"baseline", 0}, {"avx2", kernels::kAvx2}, {"avx512", kernels::kAvx2 | kernels::kAvx512}};

class StreamVariantTest : public testing::TestWithParam<std::tuple<kernels::IsaLevel, std::size_t>> {};

// `run` gets a variant, two pointers and a size.
template <typename Run>
void ExpectEveryWordOnce(std::size_t bytes, Run run) {
  for (const StreamVariant& variant : StreamVariants()) {
    SCOPED_TRACE(std::string(Name(variant.kind)) + ", " + std::string(variant.name));
    Words to(bytes, 1);
    Words from(bytes, 1'000'000);
    const std::vector<uint64_t> to_before = to.Values();
    const std::vector<uint64_t> from_before = from.Values();
    const uint64_t result = run(variant, to.data(), from.data(), bytes);
    EXPECT_EQ(result, variant.kind == StreamKind::kRead ? Sum(from_before) : 0);
    EXPECT_EQ(to.Values(), Expected(variant.kind, to_before, from_before));
    EXPECT_EQ(from.Values(), from_before);
    EXPECT_TRUE(to.GuardsIntact());
    EXPECT_TRUE(from.GuardsIntact());
  }
}

TEST_P(StreamVariantTest, TouchesEveryWordOnceAndNothingElse) {
  const auto [level, lines] = GetParam();
  const kernels::LimitIsa limit(level.features);
  ExpectEveryWordOnce(64 * lines,
                      [](const StreamVariant& variant, auto... arguments) { return variant.run(arguments...); });
}

// Lines: less than one step of any loop, whole steps, and remainders; the last ones pass the prefetch distances.
INSTANTIATE_TEST_SUITE_P(Sizes, StreamVariantTest,
                         testing::Combine(testing::ValuesIn(kWidths),
                                          testing::Values(1, 2, 7, 8, 15, 16, 17, 31, 64, 255, 1021)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_" +
                                  std::to_string(std::get<1>(test.param)) + "_lines";
                         });

// Streams with substreams use memory as the best kernels do. Copies and writes have them with streaming stores, which
// x86 has.
TEST(StreamVariants, EveryWidthHasPlainStreamsAndSubstreamsAndUniqueNames) {
  for (const kernels::IsaLevel& level : kWidths) {
    const kernels::LimitIsa limit(level.features);
    std::set<std::pair<StreamKind, std::string_view>> names;
    std::set<StreamKind> parallel;
    for (const StreamVariant& variant : StreamVariants()) {
      EXPECT_TRUE(names.emplace(variant.kind, variant.name).second) << variant.name;
      if (variant.name.find("substreams") != std::string_view::npos) parallel.insert(variant.kind);
    }
    for (const StreamKind kind : kStreamKinds) {
      EXPECT_TRUE(names.contains({kind, "plain"})) << Name(kind);
      const bool streams = kind == StreamKind::kCopy || kind == StreamKind::kWrite;
      EXPECT_TRUE(parallel.contains(kind) || (streams && !ROOFBENCH_X86)) << level.name << " " << Name(kind);
    }
  }
}

TEST(StreamVariants, EveryWidthHasItsOwn) {
  std::map<std::string_view, const StreamVariant*> of_width;
  for (const kernels::IsaLevel& level : kWidths) {
    const kernels::LimitIsa limit(level.features);
    of_width[kernels::WidestVectors()] = StreamVariants().data();
  }
  std::set<const StreamVariant*> different;
  for (const auto& [width, variants] : of_width) EXPECT_TRUE(different.insert(variants).second) << width;
  EXPECT_EQ(StreamVariants().data(), of_width[kernels::WidestVectors()]);
}

TEST(StreamTraffic, CountsBothDirections) {
  EXPECT_EQ(StreamTraffic(StreamKind::kRead, 100), 100);
  EXPECT_EQ(StreamTraffic(StreamKind::kCopy, 100), 200);
  EXPECT_EQ(StreamTraffic(StreamKind::kUpdate, 100), 200);
  EXPECT_EQ(StreamTraffic(StreamKind::kWrite, 100), 100);
}

TEST(ThreadsBytes, SplitsIntoAdjacentWholeLinesThatDifferByOneAtMost) {
  for (const std::size_t lines : {0, 1, 2, 5, 16, 1000}) {
    for (const int threads : {1, 2, 3, 7}) {
      std::size_t end = 0;
      for (int thread = 0; thread < threads; ++thread) {
        const kernels::Range own = ThreadsBytes(lines * 64, thread, threads);
        EXPECT_EQ(own.begin, end);
        EXPECT_EQ(own.begin % 64, 0);
        const std::size_t size = (own.end - own.begin) / 64;
        EXPECT_GE(size, lines / static_cast<std::size_t>(threads));
        EXPECT_LE(size, lines / static_cast<std::size_t>(threads) + 1);
        end = own.end;
      }
      EXPECT_EQ(end, lines * 64);
    }
  }
}

TEST(RunStream, CoversTheBufferWithAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3, 5}) {
    ExpectEveryWordOnce(64 * 1021, [threads](const StreamVariant& variant, auto... arguments) {
      return RunStream(variant, arguments..., threads);
    });
  }
}

TEST(FindStream, TakesTheFirstWhoseNameBeginsSo) {
  for (const StreamKind kind : kStreamKinds) {
    ASSERT_NE(FindStream(kind, "plain"), nullptr);
    EXPECT_EQ(FindStream(kind, "plain")->kind, kind);
    EXPECT_EQ(FindStream(kind, "plain")->name, "plain");
    EXPECT_EQ(FindStream(kind, "none"), nullptr);
  }
  EXPECT_EQ(FindStream(StreamKind::kRead, "streaming"), nullptr);
}

TEST(RunStream, TakesNullForTheIgnoredPointer) {
  constexpr std::size_t kBytes = 64 * 100;
  Words words(kBytes, 1);
  for (const StreamVariant& variant : StreamVariants()) {
    if (variant.kind == StreamKind::kRead) {
      EXPECT_EQ(RunStream(variant, nullptr, words.data(), kBytes, 2), Sum(words.Values()));
    } else if (variant.kind != StreamKind::kCopy) {
      const std::vector<uint64_t> before = words.Values();
      RunStream(variant, words.data(), nullptr, kBytes, 2);
      EXPECT_EQ(words.Values(), Expected(variant.kind, before, {}));
    }
  }
}

}  // namespace
}  // namespace roofbench::hardware
