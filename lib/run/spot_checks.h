// SPDX-License-Identifier: Apache-2.0
// Finds a step that does its work only while it is checked: one that stops after some calls, or keeps its result.
//
// Between chunks of samples, at times that no step can foresee, the result is overwritten and a part of the changing
// operands is exchanged; after the next chunk the result has to be there again, and the operands as they were. Among
// the steps of every chunk an element of the result is overwritten, and few elements of the operands change places,
// without a pause that a step could notice; rows that hold them are compared after the chunk. In the end the results of
// some steps are checked, each the last of a few that follow each other and find other values: as the first was, or in
// part where that check took a larger share of the case's time than all of this may. Where even the fastest of those
// takes longer than the samples, steps with new values are timed in turns with steps that find the same ones; and where
// those are faster, the case is measured with new values for each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/run/built_case.h"
#include "lib/run/overwritten_element.h"
#include "lib/suite/case.h"
#include "lib/suite/check.h"
#include "lib/timing/clock.h"
#include "lib/timing/exchanges.h"
#include "lib/timing/sampler.h"

namespace roofbench {

class SpotChecks {
 public:
  // `built`: of a case with Case::changing; it outlives this. `next` returns the copy that the next step runs, nullptr
  // before its first.
  SpotChecks(const BuiltCase& built, std::function<const Case*()> next);

  // Call it when the samples begin, again if they are taken anew.
  void Restart();
  // Call it between chunks, with the samples so far.
  void Look(const timing::Samples& samples);
  // Call it before each step, with the copy that it runs.
  void BeforeStep(const Case& next) {
    if (++steps_ < change_at_ || &element_->built() != &next) return;
    change_at_ = kNever;
    if (exchanges_) exchanges_->Begin(1);
    element_->Overwrite();
  }
  // Call it after the samples, with those that were taken: times steps by `clock`, and checks results.
  void Finish(timing::Clock& clock, const timing::Step& step, std::size_t phases, const timing::Samples& samples);
  // After Finish: how much faster a step is with the values of the step before, if all results were right; empty if it
  // is not. It keeps something, or the processor does: the branches that it took. The samples say nothing then.
  const std::string& depends_on_values() const { return depends_on_values_; }
  // Call it before each step of samples that take their place, untimed.
  void Renew();
  // DataLoss with the reason, once a result was wrong, or was kept and cannot be measured with new values.
  const absl::Status& status() const { return status_; }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  enum class Amount { kAll, kParts, kFew };
  void Change(const Case& one, Amount amount, bool overwrite);
  void LookAndChange(const timing::Samples& samples);
  void CompareWatched(const timing::Samples& samples);
  // `fresh_seconds`: of the fastest of these steps that found new values in all places, or in as many as there is time
  // to change.
  absl::Status CheckSingleSteps(timing::Clock& clock, double sample_seconds, double step_seconds,
                                double& fresh_seconds);
  // Whether all elements of the changing operands can change places in the time that such a step may take.
  bool CanRotate(double step_seconds) const;
  // Whether a step that finds new values can be as fast as one that finds the same, and as the samples' `median`.
  void CompareTurns(timing::Clock& clock, const timing::Step& step, std::size_t phases, double median);
  // Of the results, where operands changed places among the steps since the last look.
  absl::Status CheckExchanged();

  const Case& first_;
  const OperandSample& read_;
  double first_check_seconds_;
  double check_seconds_;  // of the last check of a whole result
  std::function<const Case*()> next_;
  std::mt19937_64 random_;
  std::map<const void*, uint32_t> inverted_;  // last bits of operands, by address, as they are now
  SomeRows watched_;                          // of the result that was overwritten, if one was
  OperandSample left_;                        // of the copy that was changed last, as it was left for the next step
  std::optional<OverwrittenElement> element_;
  std::optional<timing::Exchanges> exchanges_;  // of the same copy, in effect from that step on
  int64_t steps_ = 0;                           // since the last call of Look
  int64_t change_at_ = kNever;                  // one of them
  std::vector<std::size_t> changed_;            // samples that were the first with new values
  std::string depends_on_values_;
  timing::Exchanges renewals_{{}};  // says which are looked at
  absl::Status status_;
  int64_t chunks_ = 0;
  int64_t next_look_ = 0;  // in chunks
  double look_seconds_ = 0;
};

}  // namespace roofbench
