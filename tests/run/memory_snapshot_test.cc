// SPDX-License-Identifier: Apache-2.0
#include "lib/run/memory_snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "lib/device/gpu_device.h"
#include "lib/observe/ranges.h"
#include "tests/device/fake_device.h"
#include "tests/device/fake_gpu.h"

namespace roofbench {
namespace {

using observe::MemoryAction;
using observe::MicrosecondsNow;

// A GPU's allocator, whose history is read when it is over.
class MemorySnapshotOfAGpu : public testing::Test {
 protected:
  MemorySnapshotOfAGpu() {
    auto made = std::make_unique<FakeGpu>(machine_);
    gpu_ = made.get();
    GpuParts parts;
    parts.gpu = std::move(made);
    parts.host_seconds = [this] { return machine_.host; };
    device_ = std::make_unique<GpuDevice>(std::move(parts));
  }

  void Happens(MemoryAction action, uint64_t address, uint64_t bytes) {
    // Two moments are never the same one.
    time_ = std::max(time_ + 1, MicrosecondsNow());
    while (MicrosecondsNow() <= time_) {
    }
    gpu_->memory_history.events.push_back({.action = action,
                                           .address = address,
                                           .bytes = bytes,
                                           .time_us = time_,
                                           .stream = 7,
                                           .site = gpu_->memory_site()});
  }

  timing::FakeMachine machine_;
  FakeGpu* gpu_ = nullptr;
  std::unique_ptr<GpuDevice> device_;
  int64_t time_ = 0;
};

TEST_F(MemorySnapshotOfAGpu, PhasesAndCategoriesComeFromItsHistory) {
  MemorySnapshot snapshot(*device_, 2);
  EXPECT_EQ(gpu_->most_memory_events, 100'000U);
  EXPECT_FALSE(snapshot.Listener()) << "the host's allocations are not the GPU's";
  {
    const observe::Range range(observe::kParametersRange);
    Happens(MemoryAction::kAlloc, 1, 512);
  }
  const Case one{.step =
                     [this](timing::PhaseMarker& marker) {
                       {
                         const observe::Range range("forward");
                         Happens(MemoryAction::kAlloc, 2, 1024);
                       }
                       marker.End(0);
                       Happens(MemoryAction::kAlloc, 3, 512);
                       Happens(MemoryAction::kFreeRequested, 2, 1024);
                       marker.End(1);
                       Happens(MemoryAction::kFreeRequested, 3, 512);
                     },
                 .phases = {"forward", "backward"}};
  snapshot.Step(one);
  snapshot.Finish(one, /*shared_bytes=*/0);
  EXPECT_EQ(gpu_->memory_site, nullptr) << "the history has ended";
  const observe::MemoryHistory& history = snapshot.history();
  ASSERT_EQ(history.events.size(), 9U) << "two steps";
  EXPECT_EQ(history.events[0].category, "parameters");
  EXPECT_EQ(history.events[1].category, "activations");
  EXPECT_EQ(history.events[1].site, "forward");
  EXPECT_EQ(history.events[2].category, "gradients");
  ASSERT_EQ(history.phases.size(), 6U);
  EXPECT_EQ(history.phases[1].name, "backward");
  EXPECT_EQ(history.phases[1].begin, 2U);
  EXPECT_EQ(history.phases[1].end, 4U);
  EXPECT_EQ(history.phases[5].name, "end of step");
  EXPECT_EQ(history.phases[5].step, 1);
}

TEST_F(MemorySnapshotOfAGpu, EndsWithACaseThatCouldNotBeBuilt) {
  { const MemorySnapshot snapshot(*device_, 2); }
  EXPECT_EQ(gpu_->memory_site, nullptr);
}

TEST(MemorySnapshot, SharedMemoryIsThereFromTheBeginning) {
  FakeDevice device;
  MemorySnapshot snapshot(device, 1);
  const Case one{.step = [] {}};
  snapshot.Step(one);
  snapshot.Finish(one, 4e6);
  ASSERT_EQ(snapshot.history().events.size(), 1U);
  EXPECT_EQ(snapshot.history().events[0].category, "parameters");
  EXPECT_EQ(observe::PeakBytes(snapshot.history()), 4'000'000U);
  EXPECT_EQ(snapshot.history().phases.front().begin, 1U);
}

}  // namespace
}  // namespace roofbench
