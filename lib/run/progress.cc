// SPDX-License-Identifier: Apache-2.0
#include "lib/run/progress.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_format.h"

namespace roofbench {
namespace {

constexpr char kEraseLine[] = "\r\033[K";
constexpr std::size_t kNameWidth = 80;

}  // namespace

void Progress::Start(const std::string& name) {
  if (!visible_) return;
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  std::cerr << kEraseLine
            << absl::StrFormat("[%d/%d] %s", done_ + 1, std::max(cases_, done_ + 1), name.substr(0, kNameWidth));
  if (done_ > 0) std::cerr << absl::StrFormat("  %.0f s left", elapsed / done_ * std::max(cases_ - done_, 0));
  std::cerr << std::flush;
}

void Progress::Finish() {
  ++done_;
  if (visible_) std::cerr << kEraseLine << std::flush;
}

}  // namespace roofbench
