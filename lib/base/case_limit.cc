// SPDX-License-Identifier: Apache-2.0
#include "lib/base/case_limit.h"

#include "absl/strings/str_cat.h"

namespace roofbench {

// An eighth of a short limit, so that a pause costs a case at most a quarter of it.
CaseLimit::CaseLimit(Seconds limit) : limit_(limit), interval_(std::min(limit / 8, Seconds(10))) {}

bool CaseLimit::IsReached(const std::optional<Moment>& began, Moment now) {
  if (!began || *began != began_) {
    used_ = Seconds(0);
    began_ = counted_ = began.value_or(Moment());
  }
  if (!began) return false;
  used_ += std::min<Seconds>(now - counted_, 2 * interval_);
  counted_ = now;
  return used_ >= limit_;
}

std::string CaseLimit::Reason() const {
  return absl::StrCat("not finished after ", limit_.count(), " s (--case_timeout)");
}

}  // namespace roofbench
