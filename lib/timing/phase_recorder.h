// SPDX-License-Identifier: Apache-2.0
// Turns the phases that a step ends into marks, and holds the step to the sequence of its first call.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/timing/clock.h"
#include "lib/timing/sampler.h"

namespace roofbench::timing {

// All rule violations throw std::logic_error with the phase or count at fault.
class PhaseRecorder final : public PhaseMarker {
 public:
  PhaseRecorder(Clock& clock, int phases);

  // Whether the ends of phases are marked, or only checked (outside of a chunk). On at first.
  void SetMarking(bool marking) { marking_ = marking; }

  // Calls the step and checks that it ended the phases that it must. The first call defines them.
  void Run(const Step& step);

  void End(int phase) override;

  // Marks that a step makes: before the first call ended, the most that it may make.
  std::size_t MarksPerStep() const;

  // The phase of each mark of a step. Empty before the first call and for a step without phases.
  std::span<const std::size_t> Sequence() const { return sequence_; }

 private:
  void Learn(std::size_t phase);
  void FinishLearning();

  Clock& clock_;
  const std::size_t phases_;
  std::vector<std::size_t> sequence_;
  std::size_t ended_ = 0;  // by the step that runs
  bool learned_ = false;
  bool marking_ = true;
};

}  // namespace roofbench::timing
