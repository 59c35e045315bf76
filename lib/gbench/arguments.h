// SPDX-License-Identifier: Apache-2.0
// The words of the command line, before their meaning.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace roofbench {

// "--name=value" or "--name": the parts.
struct Argument {
  std::string name;           // as it is called today
  std::string old_name = {};  // as it was given, where that is another
  std::optional<std::string> value = {};
};

// nullopt for what is no flag.
std::optional<Argument> SplitArgument(const std::string& text);

// The words as a shell would take them back.
std::string CommandLine(const std::vector<std::string>& words);

// The flags that make a run what it is, in an order of their own: the last of two that contradict each other counts.
std::vector<std::string> MeasuringFlags(const std::vector<std::string>& texts);

}  // namespace roofbench
