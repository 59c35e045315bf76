// SPDX-License-Identifier: Apache-2.0
#include "lib/run/library_warnings.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/text.h"

namespace roofbench {
namespace {

constexpr std::size_t kMostTexts = 100;  // one may have a number that changes with each step
constexpr std::size_t kLongest = 500;    // columns

}  // namespace

void LibraryWarnings::process(const c10::Warning& warning) {
  if (heard_.size() >= kMostTexts) return;
  const auto [text, is_new] = heard_.insert(Excerpt(warning.msg(), kLongest));
  if (is_new) fresh_.push_back(absl::StrCat("LibTorch warns: ", *text));
}

std::vector<std::string> LibraryWarnings::Take() { return std::exchange(fresh_, {}); }

}  // namespace roofbench
