// SPDX-License-Identifier: Apache-2.0
#include "lib/run/journal/outcome_store.h"

#include <string>

namespace roofbench {

void OutcomeStore::Restore(const std::vector<PlannedCase>& plan, std::vector<Outcome> finished) {
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < plan.size(); ++i) index.emplace(plan[i].name, i);
  for (Outcome& outcome : finished) {
    const auto found = index.find(outcome.name);
    if (found == index.end()) continue;
    const std::pair<std::size_t, int> key(found->second, outcome.repetition);
    restored_.insert_or_assign(key, std::move(outcome));
  }
}

std::optional<Outcome> OutcomeStore::Take(std::size_t index) {
  const auto found = restored_.find({index, next_repetition(index)});
  if (found == restored_.end()) return std::nullopt;
  std::optional<Outcome> outcome(std::move(found->second));
  restored_.erase(found);
  return outcome;
}

const Outcome& OutcomeStore::Add(std::size_t index, Outcome outcome) {
  if (outcome.verdict == Verdict::kFailed) ++failed_;
  return outcomes_.at(index).emplace_back(std::move(outcome));
}

}  // namespace roofbench
