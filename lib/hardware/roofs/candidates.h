// SPDX-License-Identifier: Apache-2.0
// The ways to reach a roof, tried against one another.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace roofbench::hardware {

// How a roof scattered while it was measured: a tenth of the rounds were slower, a tenth faster. Zeros: unknown.
struct RateRange {
  double slow = 0;
  double fast = 0;
};

struct Candidate {
  std::string roof = {};
  std::string variant = {};
  std::function<double(double seconds)> measure = {};
  std::size_t index = 0;  // for whoever made it
  double rate = 0;        // what it reached
  RateRange range = {};
  double standing = 0;  // median over the rounds of its rate over the median one of all candidates for its roof
};

// Measures each candidate for about `seconds_each`, in rounds in which all have their turn, so that a change of the
// machine's speed hits all alike. Of the rates of its rounds, the upper quartile is what a candidate reached.
void Compete(std::span<Candidate> candidates, double seconds_each);

// Of the candidates for a roof the one that stands highest, of equals the first; nullptr if none reaches anything.
// What each has reached does not decide: a shared machine changes its speed within milliseconds, and was faster while
// this or that one had its turn. On a two-core EPYC (2026-11-23) that had made a stream the read roof that was, in
// turns with the fastest, 14 % slower.
const Candidate* Winner(std::span<const Candidate> candidates, std::string_view roof);

}  // namespace roofbench::hardware
