// SPDX-License-Identifier: Apache-2.0
// Regular expressions of strangers: matching one costs no more than the length of the text times that of the
// expression.
#pragma once

#include <regex.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace roofbench {

// A POSIX extended expression. The standard library's matcher calls itself for each character and tries every way in
// turn; the system's, which is not asked where the groups are, follows all ways at once.
class Regex {
 public:
  // InvalidArgument with the reason: bad syntax, a reference to a group (which no matcher does in proportion), or more
  // characters, choices or parentheses in each other than a filter ever has.
  static absl::StatusOr<Regex> Make(const std::string& expression);

  // Whether it matches anywhere in the text.
  bool Finds(const std::string& text) const;

 private:
  std::shared_ptr<const regex_t> compiled_;
};

}  // namespace roofbench
