// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/memory/memory_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace roofbench::observe {
namespace {

using testing::ElementsAre;

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

// A training step: what is made where, and what becomes of it.
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

TEST(MemoryHistory, WhatMemoryIsForFollowsFromWhereItIsMadeAndHowLongItLives) {
  Script script = Training();
  Categorise(script.history);
  EXPECT_THAT(Categories(script.history), ElementsAre("1 parameters", "2 operands", "3 optimizer state", "4 operands",
                                                      "9 kv cache", "5 activations", "2 workspace", "6 gradients",
                                                      "7 workspace", "8 workspace", "10 optimizer state"));
}

TEST(MemoryHistory, GradientsThatEndWithTheBackwardPassAreStillGradients) {
  Script script;
  script << Alloc(1, 100, "backward/MmBackward0") << Alloc(2, 100, "backward/MmBackward0") << Free(2, 100, "backward")
         << Free(1, 100, "backward/zero_grad");
  script.EndPhase("backward");
  Categorise(script.history);
  EXPECT_THAT(Categories(script.history), ElementsAre("1 gradients", "2 workspace"));
}

TEST(MemoryHistory, WorkOfBuildingIsForgotten) {
  Script script = Training();
  const std::size_t before = script.history.events.size();
  ForgetBuildWork(script.history);
  EXPECT_EQ(script.history.events.size(), before - 3);
  EXPECT_EQ(script.history.phases.front().begin, 4U);
  EXPECT_EQ(script.history.phases.back().end, script.history.events.size());
  EXPECT_THAT(script.history.events[4].site, "forward/aten::mm");
}

TEST(MemoryHistory, ThePeakKnowsWhatIsOlder) {
  Script script;
  script << Alloc(1, 100) << Free(2, 30) << Alloc(3, 60) << Free(1, 100);
  EXPECT_EQ(PeakBytes(script.history), 160U) << "30 bytes are older and end before the third begin";
  // Alive at the end, and never begun.
  script.history.segments.push_back(
      {.address = 4, .bytes = 500, .blocks = {{.address = 4, .bytes = 500, .allocated = true}}});
  EXPECT_EQ(PeakBytes(script.history), 660U);
}

}  // namespace
}  // namespace roofbench::observe
