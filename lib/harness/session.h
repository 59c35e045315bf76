// One run: measures planned cases on a device and keeps their outcomes.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/harness/check.h"
#include "lib/harness/device.h"
#include "lib/harness/options.h"
#include "lib/harness/outcome.h"
#include "lib/harness/plan.h"
#include "lib/harness/prediction.h"

namespace roofbench {

class Session {
 public:
  // `interrupted` is polled between samples and between cases.
  Session(const Options& options, Device& device, std::function<bool()> interrupted);

  // What an earlier process of this run has finished: Run returns it, once, instead of measuring.
  void Restore(std::vector<Outcome> finished);

  // Runs one repetition of a case: predicts, builds, checks, samples. Never throws: what goes wrong is the outcome's
  // verdict. The reference stays valid as long as the session.
  const Outcome& Run(const PlannedCase& planned);

  // Spoils every result before it is compared: for the tests of the checks.
  void TamperWithResults(Tamper tamper) { tamper_ = std::move(tamper); }

  // Outcomes of a case, by repetition; empty if it has not run.
  const std::deque<Outcome>& OutcomesOf(const std::string& name) const;
  const Device& device() const { return device_; }
  const hardware::Datasheet& reference() const { return *reference_; }
  const Options& options() const { return options_; }
  int failed() const { return failed_; }

  // Called after each case that was measured here, as soon as it has ended.
  void OnFinished(std::function<void(const PlannedCase&, const Outcome&)> callback) { finished_ = std::move(callback); }

 private:
  struct Built;

  // Why the case should not be built at all, or OK.
  absl::Status Admit(const PlannedCase& planned, const workload::Cost& cost);
  // Takes what Restore was given for the next repetition of this case; false if there is none.
  bool TakeRestored(const PlannedCase& planned, Outcome& outcome);
  // Predicted and free bytes, for the reason of a skipped case.
  std::string MemoryNote(const Outcome& outcome) const;
  // Builds, checks and samples; fills `outcome`. Errors are returned, exceptions pass.
  absl::Status Measure(const PlannedCase& planned, Outcome& outcome);
  absl::StatusOr<Built> BuildAndCheck(const PlannedCase& planned, Outcome& outcome);
  // Samples into `outcome`, with what the machine did meanwhile; again after a pause if heat slowed it down.
  void SampleUnthrottled(const Case& one, const timing::Step& step, const timing::RoofSlice& slice, Outcome& outcome);
  absl::StatusOr<double> ScoutStep(const Family& family, const Point& point);
  // A warm step from a few samples, for decisions and not for results.
  timing::Summary QuickSamples(const timing::Step& step, int phases);
  double MaxStepTime(const Family& family) const;

  const Options& options_;
  Device& device_;
  const hardware::Datasheet* reference_;
  std::function<bool()> interrupted_;
  Tamper tamper_;
  void LearnStep(const PlannedCase& planned, double seconds);
  StepTimePredictor* predictor_of(const Family& family);
  std::map<std::string, StepTimePredictor> predictors_;
  std::map<std::string, std::deque<Outcome>> outcomes_;      // a deque: references survive
  std::map<std::pair<std::string, int>, Outcome> restored_;  // by case and repetition
  double free_bytes_ = 0;                                    // when the running case began
  std::function<void(const PlannedCase&, const Outcome&)> finished_;
  int failed_ = 0;
};

}  // namespace roofbench
