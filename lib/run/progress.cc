// SPDX-License-Identifier: Apache-2.0
#include "lib/run/progress.h"

#include <algorithm>
#include <iostream>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace roofbench {
namespace {

constexpr char kEraseLine[] = "\r\033[K";
constexpr double kTypicalRoof = 0.3;  // share of the roof that most cases reach
constexpr double kBesideSteps = 3;    // a check, a warm-up, a prediction
constexpr double kBuilding = 0.2;     // seconds per case in addition to its samples

}  // namespace

std::string ProgressLine(int number, int cases, const std::string& name, double seconds_left, std::size_t width) {
  const std::string head = absl::StrFormat("[%d/%d] ", number, std::max(cases, number));
  const std::string tail = seconds_left < 0 ? "" : absl::StrFormat("  %.0f s left", seconds_left);
  const std::size_t taken = head.size() + tail.size();
  // Names are ASCII, so bytes are columns.
  return absl::StrCat(head, name.substr(0, width - std::min(width, taken)), tail);
}

std::vector<double> ExpectedSeconds(const std::vector<PlannedCase>& plan, const RunOptions& options,
                                    const workload::Peaks& peaks) {
  std::vector<double> expected;
  for (const PlannedCase& planned : plan) {
    const double roof = workload::RoofSeconds(planned.family->CostOf(planned.point), peaks).value_or(0);
    const double step = std::max(roof / kTypicalRoof, planned.family->long_step() > 0 ? roof : 0.0);
    const auto steps = static_cast<double>(options.sampling.least_samples) + kBesideSteps;
    expected.push_back(kBuilding + std::max(options.sampling.max_time, steps * step));
  }
  return expected;
}

void Progress::Expect(std::vector<double> seconds, int repetitions) {
  expected_ = std::move(seconds);
  cases_ = static_cast<int>(expected_.size()) * repetitions;
  left_ = std::accumulate(expected_.begin(), expected_.end(), 0.0) * repetitions;
  begin_ = std::chrono::steady_clock::now();
}

void Progress::Start(std::size_t index, const std::string& name) {
  running_ = true;
  if (!visible_ || index >= expected_.size()) return;
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const double left = done_ > 0 ? elapsed / done_ * left_ : -1;
  // A line that fills the last column may wrap, and its wrapped part would not be erased.
  std::cerr << kEraseLine << ProgressLine(ended_ + 1, cases_, name, left, width_ - 1) << std::flush;
}

void Progress::Finish(std::size_t index) {
  ++ended_;
  if (index < expected_.size()) {
    left_ -= expected_[index];
    if (running_) done_ += expected_[index];
  }
  if (running_ && visible_) std::cerr << kEraseLine << std::flush;
  running_ = false;
}

}  // namespace roofbench
