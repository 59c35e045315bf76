// SPDX-License-Identifier: Apache-2.0
// What became of each case of a plan, by its place in it and by repetition.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lib/results/outcome.h"
#include "lib/suite/plan.h"

namespace roofbench {

class OutcomeStore {
 public:
  explicit OutcomeStore(std::size_t cases) : outcomes_(cases) {}

  // What an earlier process of this run has finished, found by the names in the plan: kept until Take asks for it.
  void Restore(const std::vector<PlannedCase>& plan, std::vector<Outcome> finished);
  // The next repetition of a case, if it was restored.
  std::optional<Outcome> Take(std::size_t index);

  int next_repetition(std::size_t index) const { return static_cast<int>(outcomes_.at(index).size()); }
  // Adds the next repetition. The reference stays valid as long as the store.
  const Outcome& Add(std::size_t index, Outcome outcome);
  // By repetition; empty if the case has not run.
  const std::deque<Outcome>& Of(std::size_t index) const { return outcomes_.at(index); }
  int failed() const { return failed_; }

 private:
  std::vector<std::deque<Outcome>> outcomes_;                // a deque: references survive
  std::map<std::pair<std::size_t, int>, Outcome> restored_;  // by case and repetition
  int failed_ = 0;
};

}  // namespace roofbench
