// SPDX-License-Identifier: Apache-2.0
// The real CUDA part with LibTorch's allocator and streams, on a stand-in for NVIDIA's runtime.

#include <ATen/ops/empty.h>
#include <c10/core/Allocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lib/device/gpu_device.h"
#include "lib/ranks/device_group.h"
#include "lib/timing/spin_cuda.h"
#include "tests/fake_cuda/fake_runtime_cuda.h"
#include "tests/fake_cuda/other_stream_cuda.h"

namespace roofbench {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kMib = 1 << 20;

const GpuModule& Module() {
  const absl::StatusOr<const GpuModule*> module = LoadGpuModule();
  EXPECT_TRUE(module.ok()) << module.status();
  return **module;
}

Gpu* Open(int index, std::string* why) { return Module().open(index, why); }

at::Tensor Bytes(int64_t mib, int index = 0) {
  return at::empty({mib * kMib},
                   at::TensorOptions(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index))).dtype(at::kByte));
}

class CudaPart : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    gpu_.reset(Open(0, &why));
    ASSERT_NE(gpu_, nullptr) << why;
    gpu_->EmptyCache();
    used_ = TheFakeCuda().used[0];
  }
  void TearDown() override {
    TheFakeCuda().next_error = TheFakeCuda().sticky_error = TheFakeCuda().count_error = cudaSuccess;
    if (gpu_ == nullptr) return;
    gpu_->EmptyCache();
    EXPECT_EQ(TheFakeCuda().used[0], used_) << "all allocations are freed";
    EXPECT_EQ(TheFakeCuda().capturing, 0);
    EXPECT_EQ(TheFakeCuda().live_graphs, 0);
  }

  // A step of two phases with its own memory.
  static void Step(const std::function<void()>& mark) {
    const at::Tensor x = Bytes(4);
    mark();
    const at::Tensor y = Bytes(8);
    mark();
  }

  std::unique_ptr<Gpu> gpu_;
  std::size_t used_ = 0;
};

TEST_F(CudaPart, OpensEitherOfTwoDevices) {
  std::string why;
  EXPECT_EQ(Module().count(&why), 2);
  const std::unique_ptr<Gpu> second(Open(1, &why));
  ASSERT_NE(second, nullptr) << why;
  EXPECT_EQ(second->facts().name, "Fake GPU 1");
  EXPECT_EQ(second->facts().pci_bus_id, "0000:01:00.0");
  {
    const at::Tensor there = Bytes(4, 1);
    EXPECT_GT(TheFakeCuda().used[1], 0);
  }
  second->EmptyCache();
  EXPECT_EQ(TheFakeCuda().used[1], 0);
  ASSERT_NE(std::unique_ptr<Gpu>(Open(0, &why)), nullptr);
  EXPECT_EQ(Open(2, &why), nullptr);
  EXPECT_THAT(why, HasSubstr("cannot be selected"));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "LibTorch would report it after its next launch";
}

TEST_F(CudaPart, FactsAreThoseOfTheDevice) {
  const GpuFacts& facts = gpu_->facts();
  EXPECT_EQ(facts.index, 0);
  EXPECT_EQ(std::pair(facts.compute_major, facts.compute_minor), std::pair(9, 1));
  EXPECT_EQ(facts.multiprocessors, 132);
  EXPECT_EQ(facts.l2_bytes, 50 * kMib);
  EXPECT_EQ(facts.memory_bytes, 64 * kMib);
  EXPECT_EQ(facts.cuda_driver, "13.0");
  EXPECT_EQ(facts.cuda_runtime, "12.8");
}

TEST_F(CudaPart, MemoryIsThatOfItsOwnDevice) {
  std::string why;
  const std::unique_ptr<Gpu> second(Open(1, &why));  // the current device from here on
  ASSERT_NE(second, nullptr) << why;
  const double free = gpu_->FreeMemoryBytes();
  gpu_->ResetPeak();
  const double peak = gpu_->PeakBytes();
  {
    const at::Tensor there = Bytes(40, 1);
    EXPECT_EQ(gpu_->FreeMemoryBytes(), free);
    EXPECT_EQ(second->FreeMemoryBytes(), free - 40 * kMib);
    EXPECT_EQ(gpu_->PeakBytes(), peak);
    EXPECT_EQ(second->PeakBytes(), 40 * kMib);
  }
  second->EmptyCache();
  ASSERT_NE(std::unique_ptr<Gpu>(Open(0, &why)), nullptr);
}

TEST_F(CudaPart, ReportsAnOldDriver) {
  TheFakeCuda().count_error = cudaErrorInsufficientDriver;
  std::string why;
  EXPECT_LT(Module().count(&why), 0);
  EXPECT_THAT(why, HasSubstr("cudaErrorInsufficientDriver"));
}

TEST_F(CudaPart, ContinuesWhenOutOfMemory) {
  EXPECT_THROW(Bytes(200), c10::Error);
  const double free = gpu_->FreeMemoryBytes();
  { const at::Tensor x = Bytes(20); }
  EXPECT_EQ(gpu_->FreeMemoryBytes(), free) << "memory cached by the allocator is free";
}

TEST_F(CudaPart, TheClockReadsTheEventsThatItRecorded) {
  const auto guard = OtherStream();
  timing::EventClock clock(gpu_->NewEventQueue());
  clock.BeginChunk(3);
  clock.Mark();
  clock.Mark();
  for (int i = 0; i < 3; ++i) gpu_->Spin(1e-6);
  clock.Mark();
  EXPECT_THAT(clock.EndChunk(), ElementsAre(0, DoubleNear(1e-6, 1e-9), DoubleNear(5e-6, 1e-9)));
}

TEST_F(CudaPart, AnEventPassesWhenTheDeviceReachesIt) {
  const std::unique_ptr<timing::EventQueue> queue = gpu_->NewEventQueue();
  queue->Reserve(2);
  queue->Record(0);
  queue->Record(1);
  EXPECT_FALSE(queue->IsPassed(1));
  queue->Wait(0);
  EXPECT_TRUE(queue->IsPassed(0));
  EXPECT_FALSE(queue->IsPassed(1));
  EXPECT_THROW(queue->SecondsBetween(0, 1), std::runtime_error) << "not passed yet";
}

TEST(SpinReading, HasCyclesPerSecond) {
  const timing::SpinReading reading = {.cycles = 1500, .nanoseconds = 1000};
  EXPECT_EQ(reading.Hertz(), 1.5e9);
  EXPECT_EQ(timing::SpinReading().Hertz(), 0);
}

// A host that sleeps in a wait is woken up late, by tens of microseconds.
TEST_F(CudaPart, TheHostDoesNotSleepWhileItWaits) {
  const int before = TheFakeCuda().blocking_waits;
  timing::EventClock clock(gpu_->NewEventQueue());
  clock.BeginChunk(1);
  clock.Mark();
  clock.EndChunk();
  EXPECT_EQ(TheFakeCuda().blocking_waits, before);
}

TEST_F(CudaPart, AQuestionLeavesNoError) {
  const std::unique_ptr<timing::EventQueue> queue = gpu_->NewEventQueue();
  queue->Reserve(1);
  queue->Record(0);
  EXPECT_FALSE(queue->IsPassed(0));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

// The allocator reserves 20 MiB for it.
TEST_F(CudaPart, ThePeakIsOfTensors) {
  gpu_->ResetPeak();
  const double before = gpu_->PeakBytes();
  { const at::Tensor x = Bytes(4); }
  EXPECT_EQ(gpu_->PeakBytes(), before + 4 * kMib);
}

TEST_F(CudaPart, AllWorkGoesToTheCurrentStream) {
  const auto guard = OtherStream();
  const cudaStream_t stream = guard.current_stream().stream();
  EXPECT_EQ(gpu_->Stream(), stream);
  timing::EventClock clock(gpu_->NewEventQueue());
  const std::unique_ptr<GpuGraph> graph = gpu_->Record(Step);
  hardware::GpuStreams& streams = gpu_->streams();
  std::byte* const memory = streams.Allocate(1024);
  std::vector<uint64_t> words(8);
  const hardware::GpuPass pass = {.to = memory, .from = memory, .bytes = 64};
  const std::vector<std::pair<const char*, std::function<void()>>> works = {
      {"a mark", [&] { clock.Mark(); }},
      {"the end of a chunk", [&] { clock.EndChunk(); }},
      {"the sleep before a chunk", [&] { clock.BeginChunk(1); }},
      {"extra work", [&] { gpu_->Spin(1e-6); }},
      {"zeros", [&] { gpu_->Zero(memory, 64); }},
      {"an upload", [&] { streams.Upload(memory, words); }},
      {"a download", [&] { streams.Download(words, memory); }},
      {"a pass", [&] { streams.Enqueue(pass); }},
      {"timed passes",
       [&] {
         streams.Seconds({&pass, 1});
       }},
      {"a graph", [&] { graph->Replay([] {}); }},
  };
  clock.BeginChunk(1);
  for (const auto& [name, work] : works) {
    const int here = OperationsOn(stream);
    const int elsewhere = OperationsOn(nullptr);
    work();
    EXPECT_GT(OperationsOn(stream), here) << name;
    EXPECT_EQ(OperationsOn(nullptr), elsewhere) << name;
  }
  streams.Free(memory);
}

TEST_F(CudaPart, CopiesHaveEndedWhenTheyReturn) {
  hardware::GpuStreams& streams = gpu_->streams();
  std::byte* const memory = streams.Allocate(64);
  std::vector<uint64_t> words = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<uint64_t> sent = words;
  streams.Upload(memory, words);
  words.assign(8, 0);
  streams.Download(words, memory);
  EXPECT_EQ(words, sent);
  gpu_->Zero(memory, 2 * sizeof(uint64_t));
  streams.Download(words, memory);
  EXPECT_THAT(words, ElementsAre(0, 0, 3, 4, 5, 6, 7, 8));
  streams.Free(memory);
}

TEST_F(CudaPart, TheTimeOfPassesIsBetweenEventsAroundThem) {
  const auto guard = OtherStream();
  const int launches = TheFakeCuda().launches;
  const std::vector<hardware::GpuPass> passes(3, {.kind = hardware::StreamKind::kWrite, .bytes = 64});
  EXPECT_NEAR(gpu_->streams().Seconds(passes), 4e-6, 1e-9) << "three passes and the second event";
  EXPECT_EQ(TheFakeCuda().launches, launches + 4) << "and a sleep before them";
}

// Phases of one and three kernels.
TEST_F(CudaPart, AGraphRecordsTheMarksOfItsCaller) {
  const std::unique_ptr<GpuGraph> graph = gpu_->Record([&](const std::function<void()>& mark) {
    const at::Tensor x = Bytes(4);
    gpu_->Spin(1e-6);
    mark();
    for (int i = 0; i < 3; ++i) gpu_->Spin(1e-6);
    mark();
  });
  EXPECT_GT(gpu_->GraphBytes(), 0) << "memory of its launches";
  timing::EventClock clock(gpu_->NewEventQueue());
  const int launches = TheFakeCuda().graph_launches;
  clock.BeginChunk(3);
  clock.Mark();
  const auto marks = [&] {
    clock.Mark();
    clock.Mark();
  };
  graph->Replay(marks);
  EXPECT_THAT(clock.EndChunk(), ElementsAre(0, DoubleNear(2e-6, 1e-9), DoubleNear(6e-6, 1e-9)));
  EXPECT_EQ(TheFakeCuda().graph_launches, launches + 1);
  EXPECT_THROW(graph->Replay([&] {
    clock.BeginChunk(1);
    clock.Mark();
  }),
               std::logic_error);
  EXPECT_NO_THROW(graph->Replay([] {})) << "an untimed step";
}

TEST_F(CudaPart, ARecordingFollowsRealSteps) {
  const auto guard = OtherStream();
  const cudaStream_t caller = guard.current_stream().stream();
  std::vector<bool> captured;
  gpu_->Spin(1e-6);
  gpu_->Record([&](const std::function<void()>& mark) {
    if (captured.empty()) {
      EXPECT_TRUE(HasWaitedFor(caller)) << "the operands are ready";
    }
    captured.push_back(TheFakeCuda().capturing > 0);
    const auto stream = static_cast<cudaStream_t>(gpu_->Stream());
    EXPECT_NE(stream, caller);
    if (captured.back()) {
      EXPECT_TRUE(HasWaitedFor(stream)) << "the real steps have ended";
    }
    const int real = OperationsOn(stream);
    gpu_->Spin(1e-6);
    EXPECT_EQ(OperationsOn(stream), real + (captured.back() ? 0 : 1));
    mark();
  });
  ASSERT_GE(captured.size(), 2);
  EXPECT_EQ(std::ranges::count(captured, true), 1);
  EXPECT_TRUE(captured.back());
}

TEST_F(CudaPart, RecordingsOfADeviceShareAStream) {
  std::string why;
  const auto recorded_on = [](Gpu& gpu) {
    std::set<void*> streams;
    for (int i = 0; i < 3; ++i) gpu.Record([&](const std::function<void()>&) { streams.insert(gpu.Stream()); });
    EXPECT_EQ(streams.size(), 1);
    return *streams.begin();
  };
  void* const first = recorded_on(*gpu_);
  const std::unique_ptr<Gpu> second(Open(1, &why));
  ASSERT_NE(second, nullptr) << why;
  EXPECT_NE(recorded_on(*second), first);
  gpu_.reset(Open(0, &why));
  ASSERT_NE(gpu_, nullptr) << why;
  EXPECT_EQ(recorded_on(*gpu_), first);
}

// A kernel elsewhere would run once, while the graph is recorded, and never again.
TEST_F(CudaPart, NothingRunsWhileAGraphIsRecorded) {
  std::byte* const memory = gpu_->streams().Allocate(64);
  const std::unique_ptr<GpuGraph> graph = gpu_->Record([&](const std::function<void()>& mark) {
    const int launches = TheFakeCuda().launches;
    const int elsewhere = OperationsOn(nullptr);
    gpu_->Spin(1e-6);
    gpu_->Zero(memory, 64);
    gpu_->streams().Enqueue({.kind = hardware::StreamKind::kWrite, .to = memory, .bytes = 64});
    mark();
    EXPECT_EQ(OperationsOn(nullptr), elsewhere);
    if (TheFakeCuda().capturing > 0) {
      EXPECT_EQ(TheFakeCuda().launches, launches);
    }
  });
  timing::EventClock clock(gpu_->NewEventQueue());
  clock.BeginChunk(2);
  clock.Mark();
  graph->Replay([&] { clock.Mark(); });
  EXPECT_THAT(clock.EndChunk(), ElementsAre(0, DoubleNear(4e-6, 1e-9)));
  gpu_->streams().Free(memory);
}

// What other streams allocate meanwhile outlives the graph. They have memory of their own: the rest of 20 MiB.
TEST_F(CudaPart, AGraphTakesTheMemoryOfItsStreamAlone) {
  const c10::cuda::CUDAStream other = OtherStream().current_stream();
  const auto there = [&] {
    const c10::cuda::CUDAStreamGuard guard(other);
    return Bytes(4);
  };
  const at::Tensor held = there();
  at::Tensor outliving;
  const auto record = [&](const std::function<void()>& mark) {
    mark();
    if (TheFakeCuda().capturing > 0) outliving = there();
  };
  const std::unique_ptr<GpuGraph> graph = gpu_->Record(record);
  EXPECT_EQ(gpu_->GraphBytes(), 0);
  EXPECT_TRUE(outliving.defined());
}

// Such a call would be made once, while the graph is recorded.
TEST_F(CudaPart, ACaptureRefusesCallsThatAreUnsafe) {
  const std::unique_ptr<timing::EventQueue> queue = gpu_->NewEventQueue();
  queue->Reserve(1);
  queue->Record(0);
  EXPECT_THROW(gpu_->Record([&](const std::function<void()>&) { queue->IsPassed(0); }), std::runtime_error);
  EXPECT_EQ(TheFakeCuda().capturing, 0);
}

// The device has 64 MiB, and a graph's memory comes from the driver, not from the allocator's cache.
TEST_F(CudaPart, ARecordingCanUseAllFreeMemory) {
  { const at::Tensor x = Bytes(30); }
  EXPECT_GE(TheFakeCuda().used[0], 30 * kMib);
  EXPECT_NO_THROW(gpu_->Record([](const std::function<void()>&) { Bytes(40); }));
}

TEST_F(CudaPart, AFailedLaunchIsReportedOnce) {
  const int launches = TheFakeCuda().launches;
  TheFakeCuda().next_launch_error = cudaErrorLaunchOutOfResources;
  EXPECT_THROW(gpu_->Spin(1e-3), std::runtime_error);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_NO_THROW(gpu_->Spin(1e-3));
  EXPECT_EQ(TheFakeCuda().launches, launches + 1);
}

// A failed recording does not affect later ones or the memory of others.
class FailedRecording : public CudaPart, public testing::WithParamInterface<int> {};

TEST_P(FailedRecording, LeavesNoTrace) {
  const int live_events = TheFakeCuda().live_events;
  const auto fail = [&] {
    if (TheFakeCuda().capturing == 0) return;  // the warm-up steps
    if (GetParam() == 0) throw std::runtime_error("the step");
    if (GetParam() == 1) Bytes(200);
    if (GetParam() == 2) gpu_->Synchronize();
    if (GetParam() == 3) {
      const auto queue = gpu_->NewEventQueue();
      queue->Reserve(1);
      queue->Wait(0);
    }
  };
  EXPECT_ANY_THROW(gpu_->Record([&](const std::function<void()>& mark) {
    Step(mark);
    fail();
  }));
  EXPECT_EQ(TheFakeCuda().capturing, 0);
  EXPECT_EQ(TheFakeCuda().live_events, live_events);
  // All memory is shared again, and unused blocks return to the driver if another size is needed.
  for (const int64_t mib : {20, 50}) EXPECT_NO_THROW(Bytes(mib));
  gpu_->EmptyCache();
  EXPECT_EQ(gpu_->GraphBytes(), 0);
  EXPECT_EQ(TheFakeCuda().used[0], used_);
  EXPECT_NO_THROW(gpu_->Record(Step));
}

INSTANTIATE_TEST_SUITE_P(Variants, FailedRecording, testing::Values(0, 1, 2, 3));

TEST_F(CudaPart, AStickyErrorEndsTheDevice) {
  GpuParts parts;
  parts.gpu = std::move(gpu_);
  GpuDevice device(std::move(parts));
  EXPECT_TRUE(device.Health().ok());
  TheFakeCuda().next_error = cudaErrorLaunchFailure;
  EXPECT_TRUE(device.Health().ok()) << "reported once";
  TheFakeCuda().sticky_error = cudaErrorIllegalAddress;
  EXPECT_THAT(std::string(device.Health().message()), HasSubstr("cudaErrorIllegalAddress"));
  EXPECT_THROW(device.AfterCase(), std::runtime_error);
  TheFakeCuda().sticky_error = cudaSuccess;
}

// Without a GPU no rank can begin to communicate.
TEST_F(CudaPart, MakesABackendOfEachRank) {
  const auto* const nccl = static_cast<const ranks::NcclModule*>(gpu_->Export(ranks::kNcclSymbol));
  ASSERT_NE(nccl, nullptr);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto backend = nccl->make(store, 1, 2, at::Device(at::kCUDA, 0), std::chrono::seconds(1));
  EXPECT_EQ(backend->getBackendName(), "nccl");
  EXPECT_EQ(backend->getRank(), 1);
  EXPECT_EQ(backend->getSize(), 2);
  EXPECT_EQ(backend->getBoundDeviceId(), at::Device(at::kCUDA, 0)) << "a barrier would guess by the rank";
  EXPECT_TRUE(backend->supportsCoalescing()) << "by which both directions begin together";
  backend->abort();
}

}  // namespace
}  // namespace roofbench
