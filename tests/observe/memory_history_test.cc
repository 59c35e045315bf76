// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/memory/memory_history.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/observe/peak_memory.h"
#include "lib/observe/ranges.h"

namespace roofbench::observe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::StartsWith;

MemoryEvent Alloc(uint64_t address, uint64_t bytes, const std::string& site = "") {
  return {.address = address, .bytes = bytes, .site = site};
}
std::vector<MemoryEvent> Free(uint64_t address, uint64_t bytes, const std::string& site = "") {
  return {{.action = MemoryAction::kFreeRequested, .address = address, .bytes = bytes, .site = site},
          {.action = MemoryAction::kFreeCompleted, .address = address, .bytes = bytes, .site = site}};
}

class Script {
 public:
  Script& operator<<(const MemoryEvent& event) {
    history.events.push_back(event);
    return *this;
  }
  Script& operator<<(const std::vector<MemoryEvent>& events) {
    history.events.insert(history.events.end(), events.begin(), events.end());
    return *this;
  }
  void EndPhase(const std::string& name, int step = 0) {
    const std::size_t begin = history.phases.empty() ? built : history.phases.back().end;
    history.phases.push_back({.name = name, .step = step, .begin = begin, .end = history.events.size()});
  }
  void EndBuild() { built = history.events.size(); }

  MemoryHistory history;
  std::size_t built = 0;
};

// A training step.
Script Training() {
  Script script;
  script << Alloc(1, 1000, "parameters/aten::randn") << Alloc(2, 700, "noise") << Free(2, 700)
         << Alloc(3, 2000, "optimizer/aten::zeros") << Alloc(4, 10, "batch/aten::randint")
         << Alloc(9, 50, "kv cache/aten::zeros");
  script.EndBuild();
  script << Alloc(5, 300, "forward/aten::mm") << Alloc(2, 20, "forward/aten::gelu") << Free(2, 20);
  script.EndPhase("forward");
  script << Alloc(6, 1000, "backward/MmBackward0") << Alloc(7, 40) << Free(7, 40) << Free(5, 300);
  script.EndPhase("backward");
  script << Alloc(8, 5, "optimizer/aten::mul") << Free(8, 5) << Free(6, 1000) << Alloc(10, 8, "optimizer/aten::zeros");
  script.EndPhase("optimizer");
  return script;
}

std::vector<std::string> Categories(const MemoryHistory& history) {
  std::vector<std::string> found;
  for (const MemoryEvent& event : history.events) {
    if (event.action == MemoryAction::kAlloc) found.push_back(std::to_string(event.address) + " " + event.category);
  }
  return found;
}

TEST(MemoryHistory, CategoryFollowsFromSiteAndLifetime) {
  Script script = Training();
  Categorize(script.history);
  EXPECT_THAT(Categories(script.history), ElementsAre("1 parameters", "2 operands", "3 optimizer state", "4 operands",
                                                      "9 kv cache", "5 activations", "2 workspace", "6 gradients",
                                                      "7 workspace", "8 workspace", "10 optimizer state"));
}

TEST(MemoryHistory, GradientsFreedByZeroGradAreGradients) {
  Script script;
  script << Alloc(1, 100, "backward/MmBackward0") << Alloc(2, 100, "backward/MmBackward0") << Free(2, 100, "backward")
         << Free(1, 100, "backward/zero_grad");
  script.EndPhase("backward");
  Categorize(script.history);
  EXPECT_THAT(Categories(script.history), ElementsAre("1 gradients", "2 workspace"));
}

TEST(MemoryHistory, ForgetsTemporaryMemoryOfTheBuild) {
  Script script = Training();
  const std::size_t before = script.history.events.size();
  ForgetBuildWork(script.history);
  EXPECT_EQ(script.history.events.size(), before - 3);
  EXPECT_EQ(script.history.phases.front().begin, 4U);
  EXPECT_EQ(script.history.phases.back().end, script.history.events.size());
  EXPECT_THAT(script.history.events[4].site, "forward/aten::mm");
}

TEST(MemoryHistory, PeakIncludesOlderBlocks) {
  Script script;
  script << Alloc(1, 100) << Free(2, 30) << Alloc(3, 60) << Free(1, 100);
  EXPECT_EQ(PeakBytes(script.history), 160U) << "30 older bytes are freed before the third allocation";
  // Alive at the end without an allocation.
  script.history.segments.push_back(
      {.address = 4, .bytes = 500, .blocks = {{.address = 4, .bytes = 500, .allocated = true}}});
  EXPECT_EQ(PeakBytes(script.history), 660U);
}

std::vector<std::string> Sites(const MemoryHistory& history) {
  std::vector<std::string> sites;
  for (const MemoryEvent& event : history.events) {
    if (event.action == MemoryAction::kAlloc) sites.push_back(event.site);
  }
  return sites;
}

TEST(HostHistory, RecordsSitesAndLiveBlocks) {
  HostHistory recorded(1000);
  at::Tensor kept;
  double peak = 0;
  {
    const AllocationSites sites;
    PeakMemory memory([&](const void* address, int64_t bytes) { recorded.Report(address, bytes); });
    const at::AutoGradMode grad(true);
    const at::Tensor a = at::ones({64, 64}).requires_grad_(true);
    Range range("forward");
    at::Tensor loss;
    {
      const Range block("block", 3);
      loss = at::matmul(a, a).sum();
    }
    range.Next("backward");
    loss.backward();
    kept = a.grad();
    peak = memory.PeakBytes();
  }
  MemoryHistory history = recorded.Finish();
  EXPECT_THAT(Sites(history), Contains("forward/block 3/aten::matmul"));
  EXPECT_THAT(Sites(history), Contains(StartsWith("backward/block 3/M"))) << "in the part that it differentiates";
  EXPECT_EQ(static_cast<double>(PeakBytes(history)), peak);
  const auto address = reinterpret_cast<uint64_t>(kept.data_ptr());
  const bool is_alive = std::any_of(history.segments.begin(), history.segments.end(),
                                    [&](const MemorySegment& segment) { return segment.address == address; });
  EXPECT_TRUE(is_alive);
  EXPECT_EQ(AllocationSites::Now(), "") << "outside every scope";
}

TEST(HostHistory, CountsDroppedEvents) {
  HostHistory recorded(1);
  recorded.Report(&recorded, 8);
  recorded.Report(&recorded, 0);
  recorded.Report(&recorded, -8);
  const MemoryHistory history = recorded.Finish();
  EXPECT_EQ(history.events.size(), 1U);
  EXPECT_EQ(history.dropped, 1U);
}

}  // namespace
}  // namespace roofbench::observe
