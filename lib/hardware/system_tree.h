// SPDX-License-Identifier: Apache-2.0
// A tree of /proc and /sys: the machine's own, or one that a test created. A missing file reads as empty.
#pragma once

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace roofbench::hardware {

// The number that the text starts with; nullopt if there is none.
inline std::optional<double> LeadingNumber(const std::string& text) {
  std::istringstream stream(text);
  double number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

// The text after a key, and white space and colons, on the first line that starts with it.
inline std::optional<std::string> ValueOf(const std::string& text, std::string_view key) {
  constexpr std::string_view kSeparators = " \t:";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t separator = key.size();
    if (separator >= line.size() || kSeparators.find(line[separator]) == std::string_view::npos) continue;
    const std::size_t begin = line.find_first_not_of(kSeparators, separator);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return std::nullopt;
}

inline std::optional<double> NumberOf(const std::string& text, std::string_view key) {
  return LeadingNumber(ValueOf(text, key).value_or(""));
}

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

  // The number that the file starts with; nullopt for anything else, such as "max".
  std::optional<double> Number(const std::string& path) const { return LeadingNumber(Text(path)); }

 private:
  std::string root_;
};

}  // namespace roofbench::hardware
