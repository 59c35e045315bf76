// Which implementation of each piece of work was fastest, and what it leaves on the table.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace roofbench {

// What a winner is chosen from: one measured case.
struct Contender {
  std::string name;            // "layer_norm/impl:native/dtype:bf16/d:4096"
  double seconds = 0;          // of a step
  std::optional<double> roof;  // its roof fraction
};

// The best of the cases that differ in their implementation (the axis `impl`) alone.
struct Winner {
  std::string work;            // the name without the implementation: "layer_norm/dtype:bf16/d:4096"
  std::string implementation;  // "native"
  double seconds = 0;
  std::optional<double> roof;
  std::string runner_up;  // the next fastest implementation
  double lead = 1;        // its time over the winner's
};

// One for each piece of work with two or more implementations, in the order in which they appear.
std::vector<Winner> FindWinners(const std::vector<Contender>& contenders);

// The lines that follow the table; empty if nothing had a choice.
std::string DescribeWinners(const std::vector<Winner>& winners);

}  // namespace roofbench
