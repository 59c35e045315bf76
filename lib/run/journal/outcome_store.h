// SPDX-License-Identifier: Apache-2.0
// Outcomes of the cases of a plan, by index in the plan and repetition.
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

  // Adds outcomes that an earlier process of this run finished, matched by their names in the plan; Take removes them.
  void Restore(const std::vector<PlannedCase>& plan, std::vector<Outcome> finished);
  // Returns the next repetition of a case if it was restored.
  std::optional<Outcome> Take(std::size_t index);

  int next_repetition(std::size_t index) const { return static_cast<int>(outcomes_.at(index).size()); }
  // Adds the next repetition. The reference stays valid for the lifetime of the store.
  const Outcome& Add(std::size_t index, Outcome outcome);
  // By repetition; empty if the case has not run.
  const std::deque<Outcome>& Of(std::size_t index) const { return outcomes_.at(index); }
  int failed() const { return failed_; }

 private:
  std::vector<std::deque<Outcome>> outcomes_;                // a deque keeps references valid
  std::map<std::pair<std::size_t, int>, Outcome> restored_;  // by case and repetition
  int failed_ = 0;
};

}  // namespace roofbench
