// SPDX-License-Identifier: Apache-2.0
// A tree of /proc and /sys: the machine's own, or one that a test created. A missing file reads as empty.
#pragma once

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace roofbench::hardware {

class SystemTree {
 public:
  explicit SystemTree(std::string root) : root_(std::move(root)) {
    if (!root_.empty() && root_.back() == '/') root_.pop_back();
  }

  bool IsReal() const { return root_.empty(); }

  // The whole file. Paths start with "/".
  std::string Text(const std::string& path) const {
    std::ifstream file(root_ + path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // The first word of the file.
  std::string Word(const std::string& path) const {
    std::istringstream text(Text(path));
    std::string word;
    text >> word;
    return word;
  }

  // The file's number; nullopt if it starts with anything else, such as "max".
  std::optional<double> Number(const std::string& path) const {
    std::istringstream text(Text(path));
    double number = 0;
    if (text >> number) return number;
    return std::nullopt;
  }

 private:
  std::string root_;
};

}  // namespace roofbench::hardware
