// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/phase_recorder.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace roofbench::timing {

PhaseRecorder::PhaseRecorder(Clock& clock, int phases) : clock_(clock), phases_(static_cast<std::size_t>(phases)) {
  if (phases_ > 0) sequence_.reserve(clock_.MaxStepMarks());  // nothing may allocate between marks
}

void PhaseRecorder::Run(const Step& step) {
  ended_ = 0;
  step(*this);
  if (!learned_) FinishLearning();
  if (ended_ != sequence_.size()) {
    throw std::logic_error("a step ended " + std::to_string(ended_) + " phases where its first call ended " +
                           std::to_string(sequence_.size()));
  }
}

void PhaseRecorder::End(int phase) {
  const auto index = static_cast<std::size_t>(phase);
  if (!learned_) {
    Learn(index);
  } else if (ended_ >= sequence_.size() || sequence_[ended_] != index) {
    throw std::logic_error("a step ended phase " + std::to_string(phase) + " as its number " + std::to_string(ended_) +
                           ", unlike its first call");
  }
  ++ended_;
  if (marking_) clock_.Mark();
}

std::size_t PhaseRecorder::MarksPerStep() const {
  if (phases_ == 0) return 0;
  return learned_ ? sequence_.size() : clock_.MaxStepMarks() - 1;
}

void PhaseRecorder::Learn(std::size_t phase) {
  if (phase >= phases_) {
    throw std::logic_error("a step of " + std::to_string(phases_) + " phases ended phase " +
                           std::to_string(static_cast<int>(phase)));
  }
  if (sequence_.size() == MarksPerStep()) {
    throw std::logic_error("a step ended more than " + std::to_string(sequence_.size()) +
                           " phases, the most that its clock can mark");
  }
  sequence_.push_back(phase);
}

void PhaseRecorder::FinishLearning() {
  for (std::size_t phase = 0; phase < phases_; ++phase) {
    if (std::find(sequence_.begin(), sequence_.end(), phase) == sequence_.end()) {
      throw std::logic_error("a step of " + std::to_string(phases_) + " phases never ended phase " +
                             std::to_string(phase));
    }
  }
  learned_ = true;
}

}  // namespace roofbench::timing
