// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/contenders.h"

#include <map>
#include <vector>

#include "lib/timing/statistics.h"

namespace roofbench::hardware {
namespace {

// A round may be as short as a burst, and single ones tell little; a run begins with all of them.
constexpr int kRounds = 9;

// The best of all rounds would be taken in by one lucky one; a median would report the slow state of a shared machine,
// which lasts from milliseconds to minutes, whenever it meets half of the rounds.
constexpr double kReached = 0.75;  // quantile
constexpr double kEnd = 0.1;       // the quantiles of RateRange

}  // namespace

void Compete(std::span<Contender> contenders, double seconds_each) {
  std::vector<std::vector<double>> rates(contenders.size());
  std::vector<std::vector<double>> standings(contenders.size());
  for (int round = 0; round < kRounds; ++round) {
    std::map<std::string_view, std::vector<double>> of_roof;
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      rates[i].push_back(contenders[i].measure(seconds_each / kRounds));
      of_roof[contenders[i].roof].push_back(rates[i].back());
    }
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const double middle = timing::Median(of_roof[contenders[i].roof]);
      standings[i].push_back(middle > 0 ? rates[i].back() / middle : rates[i].back());
    }
  }
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    contenders[i].rate = timing::Quantile(rates[i], kReached);
    contenders[i].range = {timing::Quantile(rates[i], kEnd), timing::Quantile(rates[i], 1 - kEnd)};
    contenders[i].standing = timing::Median(standings[i]);
  }
}

const Contender* Winner(std::span<const Contender> contenders, std::string_view roof) {
  const Contender* winner = nullptr;
  for (const Contender& contender : contenders) {
    if (contender.roof != roof || contender.rate <= 0) continue;
    if (winner == nullptr || contender.standing > winner->standing) winner = &contender;
  }
  return winner;
}

}  // namespace roofbench::hardware
