// SPDX-License-Identifier: Apache-2.0
// Compares the ways to reach a roof.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace roofbench::hardware {

// The scatter of a roof during its measurement: a tenth of the rounds were slower, a tenth faster. Zeros: unknown.
struct RateRange {
  double slow = 0;
  double fast = 0;
};

struct Candidate {
  std::string roof = {};
  std::string variant = {};
  std::function<double(double seconds)> measure = {};
  std::size_t index = 0;  // set by the code that made it
  double rate = 0;        // the reached rate
  RateRange range = {};
  double standing = 0;  // median over the rounds of its rate divided by the median rate of all candidates for its roof
};

// Measures each candidate for about `seconds_each`, in rounds in which all take turns, so that a change of the
// machine's speed affects all alike. A candidate's rate is the upper quartile over its rounds.
void Compete(std::span<Candidate> candidates, double seconds_each);

// The candidate for a roof with the highest standing, the first among equals; nullptr if none reaches anything. The
// reached rates do not decide: a shared machine changes its speed within milliseconds, and may have been faster during
// one candidate's turn. On a two-core EPYC (2026-11-23) the rates had selected as the read roof a stream that was 14 %
// slower than the fastest one when both took turns.
const Candidate* Winner(std::span<const Candidate> candidates, std::string_view roof);

}  // namespace roofbench::hardware
