// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/memory/host_history.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/observe/memory/allocation_site.h"
#include "lib/observe/peak_memory.h"
#include "lib/observe/ranges.h"

namespace roofbench::observe {
namespace {

using testing::Contains;
using testing::StartsWith;

std::vector<std::string> Sites(const MemoryHistory& history) {
  std::vector<std::string> sites;
  for (const MemoryEvent& event : history.events) {
    if (event.action == MemoryAction::kAlloc) sites.push_back(event.site);
  }
  return sites;
}

TEST(HostHistory, KnowsWhoAskedAndWhatIsAlive) {
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
  EXPECT_THAT(Sites(history), Contains(StartsWith("backward/block 3/M"))) << "of the operator that it derives";
  EXPECT_EQ(static_cast<double>(PeakBytes(history)), peak);
  const auto address = reinterpret_cast<uint64_t>(kept.data_ptr());
  const bool is_alive = std::any_of(history.segments.begin(), history.segments.end(),
                                    [&](const MemorySegment& segment) { return segment.address == address; });
  EXPECT_TRUE(is_alive);
  EXPECT_EQ(AllocationSites::Now(), "") << "nothing is followed any more";
}

TEST(HostHistory, CountsWhatItCannotKeep) {
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
