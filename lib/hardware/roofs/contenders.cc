// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/contenders.h"

#include <algorithm>
#include <vector>

namespace roofbench::hardware {
namespace {

// The best of all rounds would be taken in by one lucky one; a median would report the slow state of a shared machine,
// which lasts from milliseconds to minutes, whenever it meets three rounds of five.
constexpr int kRounds = 5;

double SecondBest(std::vector<double> rates) {
  std::ranges::sort(rates, std::greater<>());
  return rates[1];
}

}  // namespace

void Compete(std::span<Contender> contenders, double seconds_each, int threads) {
  std::vector<std::vector<double>> alone(contenders.size());
  std::vector<std::vector<double>> together(contenders.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const Contender& contender = contenders[i];
      if (contender.runs_alone && threads > 1) alone[i].push_back(contender.measure(seconds_each / kRounds, 1));
      together[i].push_back(contender.measure(seconds_each / kRounds, threads));
    }
  }
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Contender& contender = contenders[i];
    contender.together = SecondBest(together[i]);
    if (!contender.runs_alone) continue;
    contender.alone = threads > 1 ? SecondBest(alone[i]) : contender.together;
  }
}

const Contender* Winner(std::span<const Contender> contenders, std::string_view roof, double tie) {
  double top = 0;
  for (const Contender& contender : contenders) {
    if (contender.roof == roof) top = std::max(top, contender.together);
  }
  const Contender* winner = nullptr;
  for (const Contender& contender : contenders) {
    if (contender.roof != roof || contender.together <= 0 || contender.together < (1 - tie) * top) continue;
    if (winner == nullptr || contender.alone > winner->alone) winner = &contender;
  }
  return winner;
}

}  // namespace roofbench::hardware
