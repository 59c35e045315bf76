// SPDX-License-Identifier: Apache-2.0
// The stand-in for a GPU catches wrong kernels: each test has one fault.
#include "tests/emulated/machine.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "tests/emulated/faulty_kernels_cuda.h"
#include "tests/emulated/operand.h"

namespace roofbench::emulated {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kOrders = 8;

// In how many of kOrders orders of turns the two results are wrong.
template <typename Launch>
int WrongOrders(const Launch& launch, const std::vector<float>& x, const std::vector<float>& expected, bool racy) {
  int wrong = 0;
  for (uint32_t seed = 1; seed <= kOrders; ++seed) {
    Seed(seed);
    std::vector<float> y(expected.size());
    EXPECT_EQ(launch(y.data(), x.data(), racy), cudaSuccess);
    if (y != expected) ++wrong;
  }
  return wrong;
}

std::vector<float> Numbers(int count) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  return numbers;
}

TEST(Machine, CatchesAReadBeforeTheWrite) {
  const std::vector<float> x = Numbers(kFaultyThreads);
  const std::vector<float> expected(x.rbegin(), x.rend());
  EXPECT_EQ(WrongOrders(LaunchReverse, x, expected, false), 0);
  EXPECT_EQ(WrongOrders(LaunchReverse, x, expected, true), kOrders);
}

// The sums of the two halves of x, each as often as it has numbers.
std::vector<float> SumsOfHalves(const std::vector<float>& x) {
  const auto half = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::vector<float> sums(x.size() / 2, std::accumulate(x.begin(), half, 0.0F));
  sums.resize(x.size(), std::accumulate(half, x.end(), 0.0F));
  return sums;
}

TEST(Machine, CatchesAWriteBeforeTheRead) {
  const std::vector<float> x = Numbers(2 * kFaultyThreads);
  EXPECT_EQ(WrongOrders(LaunchTwoSums, x, SumsOfHalves(x), false), 0);
  EXPECT_EQ(WrongOrders(LaunchTwoSums, x, SumsOfHalves(x), true), kOrders);
}

// One warp must be a whole reduction ahead of a thread.
TEST(Machine, CatchesAMissingBarrierBetweenTwoReductions) {
  const std::vector<float> x = Numbers(2 * kReductionThreads);
  EXPECT_EQ(WrongOrders(LaunchTwoReductions, x, SumsOfHalves(x), false), 0);
  EXPECT_GE(WrongOrders(LaunchTwoReductions, x, SumsOfHalves(x), true), 1);
}

TEST(Machine, TrapsABarrierThatNotAllThreadsMeet) {
  EXPECT_EQ(LaunchHalfABarrier(kFaultyThreads), cudaSuccess);
  EXPECT_EQ(LaunchHalfABarrier(0), cudaSuccess);
  EXPECT_THAT([] { LaunchHalfABarrier(1); },
              ThrowsMessage<Fault>(HasSubstr("thread 0 waits forever at faulty_kernels.cu:")));
  EXPECT_THAT(LaunchTwoBarriers,
              ThrowsMessage<Fault>(HasSubstr("threads wait at different barriers: faulty_kernels.cu:")));
}

TEST(Machine, TrapsAShuffleThatALaneStaysAwayFrom) {
  EXPECT_THAT(LaunchLonelyShuffle, ThrowsMessage<Fault>(HasSubstr("waits forever at faulty_kernels.cu:")));
}

TEST(Machine, TrapsALaunchOnTheDefaultStream) {
  EXPECT_THAT(LaunchOnTheDefaultStream, ThrowsMessage<Fault>(HasSubstr("not the caller's")));
}

TEST(Machine, TrapsAVectorThatIsNotAligned) {
  const std::vector<float> x = Numbers(8);
  float y = 0;
  EXPECT_EQ(LaunchLoadOfFour(&y, x.data()), cudaSuccess);
  EXPECT_EQ(y, 4);
  EXPECT_THAT([&] { LaunchLoadOfFour(&y, x.data() + 1); }, ThrowsMessage<Fault>(HasSubstr("not aligned")));
}

TEST(Machine, ContinuesAfterAFault) {
  EXPECT_THROW(LaunchTwoBarriers(), Fault);
  const std::vector<float> x = Numbers(kFaultyThreads);
  EXPECT_EQ(WrongOrders(LaunchReverse, x, {x.rbegin(), x.rend()}, false), 0);
}

TEST(MachineDeathTest, CatchesAnAccessOutsideAnOperand) {
  const Operand<float> x(std::span<const float>(Numbers(8)));
  float y = 0;
  EXPECT_DEATH(LaunchLoadOfFour(&y, x.end()), "outside its operands");
  EXPECT_DEATH(LaunchLoadOfFour(&y, x.data() - 1024), "outside its operands");
}

TEST(Machine, ReadsNanBetweenAnOperandAndItsGuard) {
  const Operand<float> x(std::span<const float>(Numbers(7)));
  float y = 0;
  LaunchLoadOfFour(&y, x.data() + 4);
  EXPECT_TRUE(std::isnan(y)) << y;
}

TEST(Machine, RefusesTheShapesThatADeviceRefuses) {
  const auto nothing = [] {};
  void (*const kernel)() = nothing;
  EXPECT_EQ(cudaLaunchKernel(kernel, 1, 1025, nullptr, 0, CallersStream()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaLaunchKernel(kernel, dim3(1, 65536), 32, nullptr, 0, CallersStream()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
}

}  // namespace
}  // namespace roofbench::emulated
