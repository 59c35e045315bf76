// SPDX-License-Identifier: Apache-2.0
// A /proc and /sys of some other machine.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace roofbench::hardware {

class FakeTree : public testing::Test {
 protected:
  FakeTree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fake_tree_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~FakeTree() override { std::filesystem::remove_all(root_); }

  // Files of the tree and their text, without the last line's end.
  using Files = std::vector<std::pair<std::string, std::string>>;
  void Write(const Files& files) const {
    for (const auto& [path, text] : files) {
      const std::filesystem::path file = std::filesystem::path(root_) / path;
      std::filesystem::create_directories(file.parent_path());
      std::ofstream(file) << text << "\n";
    }
  }
  void Write(const std::string& path, const std::string& text) const { Write({{path, text}}); }

  std::string root_;
};

}  // namespace roofbench::hardware
