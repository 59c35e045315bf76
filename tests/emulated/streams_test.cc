// SPDX-License-Identifier: Apache-2.0
// The memory streams, and the sleep before them.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <span>

#include "lib/hardware/roofs/stream_kernels_cuda.h"
#include "lib/timing/spin_cuda.h"
#include "tests/emulated/values.h"

namespace roofbench::emulated {
namespace {

using hardware::CudaStream;

constexpr unsigned long long kPattern = 0x0123456789abcdefULL;

// Words of 16 bytes: fewer than a block takes, as many as the grid takes at once, more, and remainders of both.
class Streams : public testing::TestWithParam<std::size_t> {
 protected:
  std::vector<uint64_t> Launch(CudaStream kind, int variant, const std::vector<uint64_t>& target) const {
    const Operand<uint64_t> from(std::span<const uint64_t>{from_});
    const Operand<uint64_t> to(std::span<const uint64_t>{target});
    EXPECT_EQ(LaunchCudaStream(kind, variant, to.data(), from.data(), words_, kRepeat, kPattern, CallersStream()),
              cudaSuccess);
    return {to.begin(), to.end()};
  }
  static std::vector<uint64_t> Numbers(std::size_t count, uint64_t first) {
    std::vector<uint64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
  }
  static constexpr int kRepeat = 3;
  const std::size_t words_ = GetParam();
  const std::vector<uint64_t> from_ = Numbers(2 * words_, 1ULL << 60);
  const std::vector<uint64_t> to_ = Numbers(2 * words_, 5);
};

TEST_P(Streams, DoWhatTheyShould) {
  for (int variant = 0; variant < hardware::kCudaStreamVariants; ++variant) {
    const uint64_t sum = std::accumulate(from_.begin(), from_.end(), uint64_t{0});
    EXPECT_EQ(Launch(CudaStream::kRead, variant, {7}), std::vector<uint64_t>{7 + kRepeat * sum});
    EXPECT_EQ(Launch(CudaStream::kCopy, variant, to_), from_);
    EXPECT_EQ(Launch(CudaStream::kUpdate, variant, to_), Numbers(2 * words_, 5 + kRepeat));
    EXPECT_EQ(Launch(CudaStream::kWrite, variant, to_), std::vector<uint64_t>(2 * words_, kPattern));
  }
}

INSTANTIATE_TEST_SUITE_P(Words, Streams, testing::Values(4, 2048, 8192, 10244));

// Blocks beyond what the device holds at once come in a second wave, in which most of it idles.
struct GridRow {
  int machines;
  int blocks_of_machine;
  std::size_t words;
  unsigned blocks;
};
constexpr CudaStream kKinds[] = {CudaStream::kRead, CudaStream::kCopy, CudaStream::kUpdate, CudaStream::kWrite};

cudaError_t LaunchOnce(CudaStream kind, int variant, std::size_t words) {
  std::vector<uint64_t> from(2 * words);
  std::vector<uint64_t> to(2 * words);
  return LaunchCudaStream(kind, variant, to.data(), from.data(), words, 1, kPattern, CallersStream());
}

class Grid : public testing::TestWithParam<GridRow> {
 protected:
  void TearDown() override { TheCapacity() = {}; }
};

TEST_P(Grid, IsWhatTheDeviceHoldsAtOnceAndNoMoreThanThereIsWork) {
  for (const CudaStream kind : kKinds) {
    for (int variant = 0; variant < hardware::kCudaStreamVariants; ++variant) {
      TheCapacity() = {.machines = GetParam().machines, .blocks_of_machine = GetParam().blocks_of_machine};
      LastLaunch() = {};
      ASSERT_EQ(LaunchOnce(kind, variant, GetParam().words), cudaSuccess);
      EXPECT_EQ(LastLaunch().grid.x, GetParam().blocks);
      // A kernel that takes more registers has fewer blocks: the query is for the launched kernel, at its own size.
      EXPECT_EQ(TheCapacity().kernel, LastLaunch().kernel);
      EXPECT_EQ(TheCapacity().threads, static_cast<int>(LastLaunch().block.x));
    }
  }
}

TEST(NoGrid, IsLaunchedIfTheQueryFails) {
  for (const CudaStream kind : kKinds) {
    TheCapacity() = {.error = cudaErrorInvalidValue};
    LastLaunch() = {};
    EXPECT_EQ(LaunchOnce(kind, 0, 4), cudaErrorInvalidValue);
    EXPECT_EQ(LastLaunch().kernel, nullptr);
  }
  TheCapacity() = {};
}

// A block of 512 threads has 2048 words in one go.
INSTANTIATE_TEST_SUITE_P(Devices, Grid,
                         testing::Values(GridRow{2, 2, 4, 1}, GridRow{2, 2, 2048, 1}, GridRow{2, 2, 2052, 2},
                                         GridRow{2, 2, 8192, 4}, GridRow{2, 2, 20000, 4}, GridRow{2, 3, 20000, 6},
                                         GridRow{5, 1, 20000, 5}, GridRow{108, 4, 20000, 10}, GridRow{3, 0, 20000, 1}));

// The blocks that came to a vector at `of` in kRounds rounds, and how often: the same for each vector.
constexpr int kRounds = 3;
struct Visits {
  std::size_t blocks = 0;
  std::size_t accesses = 0;
  bool operator==(const Visits&) const = default;
};
Visits OfAVector(CudaStream kind, bool of_target) {
  constexpr std::size_t kWords = 8192;  // one turn of the grid
  std::vector<uint64_t> from(2 * kWords);
  std::vector<uint64_t> to(2 * kWords);
  std::vector<Access> accesses;
  Recorder() = &accesses;
  EXPECT_EQ(LaunchCudaStream(kind, 0, to.data(), from.data(), kWords, kRounds, kPattern, CallersStream()), cudaSuccess);
  Recorder() = nullptr;
  const std::vector<uint64_t>& seen = of_target ? to : from;
  std::map<const void*, std::multiset<unsigned>> blocks;
  for (const Access& access : accesses) {
    if (access.address >= seen.data() && access.address < seen.data() + seen.size()) {
      blocks[access.address].insert(access.block);
    }
  }
  EXPECT_EQ(blocks.size(), kWords);
  const auto visits = [](const std::multiset<unsigned>& all) {
    return Visits{std::set<unsigned>(all.begin(), all.end()).size(), all.size()};
  };
  const Visits first = blocks.empty() ? Visits{} : visits(blocks.begin()->second);
  for (const auto& [address, of_address] : blocks) EXPECT_EQ(visits(of_address), first);
  return first;
}

// One access a round: a second one is traffic that the roof does not count. Another block in each round: else the
// caches of a multiprocessor, or its registers, would serve the second one.
TEST(StreamRounds, EachAccessesAWordOnceInAnotherBlock) {
  constexpr Visits kEachRound{kRounds, kRounds};
  EXPECT_EQ(OfAVector(CudaStream::kRead, false), kEachRound);
  EXPECT_EQ(OfAVector(CudaStream::kCopy, false), kEachRound);
  EXPECT_EQ(OfAVector(CudaStream::kCopy, true), kEachRound);
  EXPECT_EQ(OfAVector(CudaStream::kWrite, true), kEachRound);
  EXPECT_EQ(OfAVector(CudaStream::kUpdate, true), (Visits{1, 2 * kRounds}))
      << "the updates of two blocks would have no order";
}

// Thousands of them on one address take as long as megabytes.
TEST(ReadSum, IsOneAtomicABlock) {
  const std::vector<uint64_t> from(2 * 8192, 1);
  std::vector<uint64_t> sum(2);
  for (int variant = 0; variant < hardware::kCudaStreamVariants; ++variant) {
    std::vector<Access> accesses;
    Recorder() = &accesses;
    EXPECT_EQ(
        LaunchCudaStream(CudaStream::kRead, variant, sum.data(), from.data(), from.size() / 2, 2, 0, CallersStream()),
        cudaSuccess);
    Recorder() = nullptr;
    std::map<unsigned, int> of_block;
    for (const Access& access : accesses) of_block[access.block] += access.address == sum.data() ? 1 : 0;
    EXPECT_GT(of_block.size(), 1);
    for (const auto& [block, count] : of_block) EXPECT_EQ(count, 1) << "block " << block;
  }
}

TEST(Spin, Ends) { EXPECT_EQ(timing::LaunchSpin(1e-5, CallersStream()), cudaSuccess); }

// On a GPU a timer may stand still under a profiler, and cycles where the clock is lowered pass slowly.
TEST(Spin, EndsByEitherClock) {
  constexpr int kPatience = 100'000;
  const Clocks before = TheClocks();
  int reads = 0;
  // Both advance in the end, so that a kernel that waits for both ends, too.
  const auto runs = [&] { return 1000 * ++reads; };
  const auto stands = [&] { return ++reads < kPatience ? 0 : 1'000'000'000; };
  for (const bool has_timer : {true, false}) {
    reads = 0;
    TheClocks().nanoseconds = has_timer ? std::function<uint64_t()>(runs) : stands;
    TheClocks().cycles = has_timer ? std::function<long long()>(stands) : runs;
    EXPECT_EQ(timing::LaunchSpin(1e-5, CallersStream()), cudaSuccess);
    EXPECT_LT(reads, kPatience) << has_timer;
  }
  TheClocks() = before;
}

}  // namespace
}  // namespace roofbench::emulated
