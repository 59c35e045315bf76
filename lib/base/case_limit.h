// SPDX-License-Identifier: Apache-2.0
// The limit of time of a case, as its supervisor counts it.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

namespace roofbench {

// Counts the time of the running case against its limit. Pauses of this process do not count: while the machine sleeps
// or the process group is stopped (Ctrl-Z), the case does not run either.
class CaseLimit {
 public:
  using Seconds = std::chrono::duration<double>;
  using Moment = std::chrono::steady_clock::time_point;
  explicit CaseLimit(Seconds limit);

  // Counts until `now`; true if the limit is reached. `began`: when the running case did, which distinguishes it from
  // others; nullopt: none runs.
  bool IsReached(const std::optional<Moment>& began, Moment now);
  // The longest time until the next call: what exceeds twice that is a pause.
  Seconds NextCall() const { return std::min(interval_, limit_ - used_); }
  // Why the case failed: "not finished after 60 s (--case_timeout)".
  std::string Reason() const;

 private:
  const Seconds limit_;
  const Seconds interval_;
  Seconds used_{0};
  Moment began_;
  Moment counted_;  // until when
};

}  // namespace roofbench
