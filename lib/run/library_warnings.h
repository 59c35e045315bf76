// SPDX-License-Identifier: Apache-2.0
// Warnings of LibTorch while cases run. By itself it prints them at once, in the middle of a table.
#pragma once

#include <c10/util/Exception.h>

#include <set>
#include <string>
#include <vector>

namespace roofbench {

// While it lives, warnings of this thread, and of the backward passes that it starts, are kept, each text once.
class LibraryWarnings : private c10::WarningHandler {
 public:
  LibraryWarnings() : guard_(this) {}

  // "LibTorch warns: …", a line for each new text. The caller says them where they disturb no row.
  std::vector<std::string> Take();

 private:
  void process(const c10::Warning& warning) override;

  std::set<std::string> heard_;
  std::vector<std::string> fresh_;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

}  // namespace roofbench
