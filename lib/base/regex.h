// SPDX-License-Identifier: Apache-2.0
// Untrusted regular expressions: matching takes time proportional to the lengths of the text and the expression.
#pragma once

#include <regex.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace roofbench {

// A POSIX extended expression. std::regex recurses for each character and backtracks; the system's matcher, without
// submatches, follows all alternatives at once.
class Regex {
 public:
  // InvalidArgument with the reason: bad syntax, a reference to a group (which needs backtracking), or more
  // characters, choices or nested parentheses than the limits.
  static absl::StatusOr<Regex> Make(const std::string& expression);

  // Whether it matches any part of the text.
  bool Finds(const std::string& text) const;

 private:
  std::shared_ptr<const regex_t> compiled_;
};

}  // namespace roofbench
