// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/candidates.h"

#include <map>
#include <vector>

#include "lib/timing/statistics.h"

namespace roofbench::hardware {
namespace {

// A round may be as short as a burst, and a single round is unreliable, so a run begins with this many.
constexpr int kRounds = 9;

// The maximum over the rounds would follow a single lucky one; a median would report the slow state of a shared
// machine, which lasts from milliseconds to minutes, whenever it covers half of the rounds.
constexpr double kReached = 0.75;  // quantile
constexpr double kEnd = 0.1;       // the quantiles of RateRange

}  // namespace

void Compete(std::span<Candidate> candidates, double seconds_each) {
  std::vector<std::vector<double>> rates(candidates.size());
  std::vector<std::vector<double>> standings(candidates.size());
  for (int round = 0; round < kRounds; ++round) {
    std::map<std::string_view, std::vector<double>> of_roof;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      rates[i].push_back(candidates[i].measure(seconds_each / kRounds));
      of_roof[candidates[i].roof].push_back(rates[i].back());
    }
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const double middle = timing::Median(of_roof[candidates[i].roof]);
      standings[i].push_back(middle > 0 ? rates[i].back() / middle : rates[i].back());
    }
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].rate = timing::Quantile(rates[i], kReached);
    candidates[i].range = {timing::Quantile(rates[i], kEnd), timing::Quantile(rates[i], 1 - kEnd)};
    candidates[i].standing = timing::Median(standings[i]);
  }
}

const Candidate* Winner(std::span<const Candidate> candidates, std::string_view roof) {
  const Candidate* winner = nullptr;
  for (const Candidate& candidate : candidates) {
    if (candidate.roof != roof || candidate.rate <= 0) continue;
    if (winner == nullptr || candidate.standing > winner->standing) winner = &candidate;
  }
  return winner;
}

}  // namespace roofbench::hardware
