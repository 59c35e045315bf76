// SPDX-License-Identifier: Apache-2.0
#include "lib/run/progress.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/text.h"

namespace roofbench {
namespace {

constexpr char kEraseLine[] = "\r\033[K";
constexpr double kTypicalRoof = 0.3;  // share of the roof that most cases reach
constexpr double kBesideSteps = 3;    // a check, a warm-up, a prediction
constexpr double kBuilding = 1;       // seconds per case in addition to its samples
constexpr double kLogSeconds = 60;    // between lines of a log

}  // namespace

std::string RoughTime(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  if (seconds < 100) return absl::StrFormat("%.0f s", seconds);
  if (seconds < 100 * kMinute) return absl::StrFormat("%.0f min", seconds / kMinute);
  return absl::StrFormat("%.1f h", seconds / kHour);
}

std::string PlanText(std::size_t cases, int repetitions, std::size_t left, double seconds) {
  const std::string plan =
      absl::StrCat(Counted(cases, "case"), repetitions > 1 ? absl::StrCat(", ", repetitions, " repetitions each") : "");
  const std::size_t all = cases * static_cast<std::size_t>(repetitions);
  if (left == 0) return absl::StrCat(plan, ", all finished: nothing is measured");
  const std::string of_all = repetitions > 1 ? absl::StrCat(" of ", all) : "";
  return absl::StrCat(plan, left < all ? absl::StrCat(", ", left, of_all, " left") : "", ", about ",
                      RoughTime(seconds));
}

std::string ProgressLine(int number, int cases, const std::string& name, double seconds_left, std::size_t width) {
  const std::string head = absl::StrFormat("[%d/%d] ", number, std::max(cases, number));
  const std::string tail = seconds_left < 0 ? "" : absl::StrCat("  ", RoughTime(seconds_left), " left");
  const std::size_t taken = head.size() + tail.size();
  // Names are ASCII, so bytes are columns.
  return absl::StrCat(head, name.substr(0, width - std::min(width, taken)), tail);
}

namespace {

// Where no roof is measured: what the datasheet says, else a processor of some years ago, for each thread.
workload::Peaks PeaksOf(const Device& device) {
  if (!workload::KnownRates(device.MeasuredPeaks()).empty()) return device.MeasuredPeaks();
  if (device.datasheet() != nullptr) return device.datasheet()->peaks;
  constexpr double kFlopsPerSecond = 3e10;
  constexpr double kBytesPerSecond = 1e10;
  std::array<double, workload::kDtypeCount> flops = {};
  flops.fill(kFlopsPerSecond * device.threads());
  return workload::UniformPeaks(flops, kBytesPerSecond);
}

}  // namespace

std::vector<double> ExpectedSeconds(const std::vector<PlannedCase>& plan, const RunOptions& options,
                                    const Device& device) {
  const workload::Peaks peaks = PeaksOf(device);
  std::vector<double> expected;
  for (const PlannedCase& planned : plan) {
    const double roof = workload::RoofSeconds(planned.family->CostOf(planned.point), peaks).value_or(0);
    const double step = std::max(roof / kTypicalRoof, planned.family->long_step() > 0 ? roof : 0.0);
    const timing::SampleOptions& sampling = options.sampling;
    const int64_t samples = sampling.exact_samples ? sampling.max_samples : sampling.least_samples;
    const double least = (static_cast<double>(samples) + kBesideSteps) * step;
    expected.push_back(kBuilding + options.min_warmup_time +
                       (sampling.exact_samples ? least : std::max(sampling.max_time, least)));
  }
  return expected;
}

Progress::Progress(std::ostream& out, bool on_terminal, std::size_t width, Now now)
    : out_(out), on_terminal_(on_terminal), width_(width), now_(std::move(now)), begin_(now_()), last_line_(begin_) {}

void Progress::Announce(const std::string& stage) {
  if (on_terminal_) out_ << kEraseLine << stage.substr(0, width_ - 1) << std::flush;
}

void Progress::Expect(std::vector<double> seconds, int repetitions) {
  expected_ = std::move(seconds);
  cases_ = static_cast<int>(expected_.size()) * repetitions;
  left_ = std::accumulate(expected_.begin(), expected_.end(), 0.0) * repetitions;
  begin_ = now_();
}

void Progress::Start(std::size_t index, const std::string& name) {
  running_ = true;
  if (index >= expected_.size()) return;
  const double now = now_();
  const double left = done_ > 0 ? (now - begin_) / done_ * left_ : -1;
  if (on_terminal_) {
    // A line that fills the last column may wrap, and its wrapped part would not be erased.
    out_ << kEraseLine << ProgressLine(ended_ + 1, cases_, name, left, width_ - 1) << std::flush;
  } else if (now - last_line_ >= kLogSeconds) {
    out_ << ProgressLine(ended_ + 1, cases_, name, left, std::string::npos) << std::endl;
    last_line_ = now;
  }
}

void Progress::Finish(std::size_t index) {
  ++ended_;
  if (index < expected_.size()) {
    left_ -= expected_[index];
    if (running_) done_ += expected_[index];
  }
  if (running_ && on_terminal_) out_ << kEraseLine << std::flush;
  running_ = false;
}

}  // namespace roofbench
