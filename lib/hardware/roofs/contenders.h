// SPDX-License-Identifier: Apache-2.0
// The ways to reach a roof, tried against one another.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace roofbench::hardware {

struct Contender {
  std::string roof = {};
  std::string variant = {};
  std::function<double(double seconds, int threads)> measure = {};
  std::size_t index = 0;   // for whoever made it
  bool runs_alone = true;  // can be measured on one thread
  double alone = 0;        // rate of one thread
  double together = 0;     // rate of the pool
};

// Measures each contender for about `seconds_each`, in rounds in which all have their turn, so that a change of the
// machine's speed hits all alike; on one thread, too, where a contender can run so. The second best round counts.
void Compete(std::span<Contender> contenders, double seconds_each, int threads);

// The fastest of the contenders for a roof; nullptr if none reaches anything. Rates within `tie` (relative) of the
// fastest are equal: of these, the fastest on one thread wins, and then the first.
const Contender* Winner(std::span<const Contender> contenders, std::string_view roof, double tie);

}  // namespace roofbench::hardware
