// SPDX-License-Identifier: Apache-2.0
// Our clock compared with CUPTI's records of the same steps, and its parts.

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "lib/timing/statistics.h"
#include "tests/gpu/gpu_test.h"

namespace roofbench {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

constexpr int kSteps = 50;

class ClockTest : public GpuTest {
 protected:
  // Seconds of the clock's chunk of kSteps products of n x n matrices.
  double Chunk(int64_t n) {
    const auto options = at::TensorOptions(device().torch_device()).dtype(at::kBFloat16);
    const at::Tensor a = at::randn({n, n}, options);
    const at::Tensor b = at::randn({n, n}, options);
    at::Tensor c = at::empty({n, n}, options);
    for (int i = 0; i < 3; ++i) at::mm_out(c, a, b);
    gpu().Synchronize();
    device().clock().BeginChunk(kSteps + 1);
    device().clock().Mark();
    for (int i = 0; i < kSteps; ++i) {
      at::mm_out(c, a, b);
      device().clock().Mark();
    }
    return device().clock().EndChunk().back();
  }
};

TEST_F(ClockTest, AgreesWithKineto) {
  const profiler::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities = {ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  const double ours = Chunk(4096);
  const auto result = profiler::disableProfiler();
  double theirs = 0;
  int kernels = 0;
  for (const auto& event : result->events()) {
    const bool product = event.deviceType() == at::kCUDA && (event.name().find("gemm") != std::string::npos ||
                                                             event.name().find("nvjet") != std::string::npos ||
                                                             event.name().find("cutlass") != std::string::npos);
    if (!product) continue;
    ++kernels;
    theirs += 1e-9 * static_cast<double>(event.durationNs());
  }
  ASSERT_GT(kernels, kSteps) << "the warm-up's, too";
  theirs *= static_cast<double>(kSteps) / kernels;  // without the warm-up's share
  std::printf("clock %.6f s, Kineto %.6f s: ratio %.4f\n", ours, theirs, ours / theirs);
  RecordProperty("clock_over_kineto", std::to_string(ours / theirs));
  // Our time includes the gaps between kernels and the events: from a few to some hundred microseconds.
  EXPECT_NEAR(ours / theirs, 1.0, 0.05);
}

TEST_F(ClockTest, KnowsTheRateOfTheMultiprocessorsClock) {
  Chunk(4096);
  const double hertz = device().clock().DeviceHertz();
  std::printf("clock %.0f MHz\n", hertz * 1e-6);
  RecordProperty("clock_mhz", std::to_string(hertz * 1e-6));
  // From what a GPU with tensor cores computes at to more than any has.
  EXPECT_GT(hertz, 0.72e9);
  EXPECT_LT(hertz, 4e9);
}

TEST_F(ClockTest, AnEmptyPairOfEventsHasAFloor) {
  const double floor = device().clock().FloorSeconds();
  std::printf("floor %.3f us\n", floor * 1e6);
  RecordProperty("floor_us", std::to_string(floor * 1e6));
  EXPECT_GT(floor, 0);
  EXPECT_LT(floor, 1e-3);
}

TEST_F(ClockTest, LaunchesHaveFloors) {
  const auto each = [&](const std::function<void()>& launch) {
    device().clock().BeginChunk(2);
    device().clock().Mark();
    for (int i = 0; i < kSteps; ++i) launch();
    device().clock().Mark();
    return device().clock().EndChunk().back() / kSteps;
  };
  const std::unique_ptr<GpuGraph> graph = gpu().Record([&](const std::function<void()>&) { gpu().Spin(0); });
  const double kernel = each([&] { gpu().Spin(0); });
  const double whole = each([&] { graph->Replay([] {}); });
  std::printf("launch floor %.3f us\ngraph launch floor %.3f us\n", kernel * 1e6, whole * 1e6);
  for (const double seconds : {kernel, whole}) {
    EXPECT_GT(seconds, 0);
    EXPECT_LT(seconds, 1e-3);
  }
}

// Prints how an idle device reaches its clocks, which explains the first samples of a run.
TEST_F(ClockTest, RampsUpFromIdle) {
  using std::chrono::steady_clock;
  if (!device().ReadConditions().clock_hertz) GTEST_SKIP() << "the clock is unknown";
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const auto start = steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - start).count();
  };
  for (int reading = 0; reading < 30; ++reading) {
    const std::optional<double> hertz = device().ReadConditions().clock_hertz;
    ASSERT_TRUE(hertz);
    std::printf("clock after %lld ms: %.0f MHz\n", static_cast<long long>(elapsed()), *hertz / 1e6);
    Chunk(4096);
  }
}

TEST_F(ClockTest, ASpinEndsWhenItShould) {
  device().clock().BeginChunk(2);
  device().clock().Mark();
  gpu().Spin(5e-3);
  device().clock().Mark();
  const double spun = device().clock().EndChunk().back();
  // The limit in cycles keeps it from spinning much longer, but does not shorten it at lower clocks.
  EXPECT_GT(spun, 4e-3);
  EXPECT_LT(spun, 50e-3);
}

TEST_F(ClockTest, MarksGrow) {
  Chunk(512);
  device().clock().BeginChunk(300);
  for (int i = 0; i < 300; ++i) device().clock().Mark();
  const auto marks = device().clock().EndChunk();
  ASSERT_EQ(marks.size(), 300);
  for (std::size_t i = 1; i < marks.size(); ++i) EXPECT_GE(marks[i], marks[i - 1]);
}

}  // namespace
}  // namespace roofbench
