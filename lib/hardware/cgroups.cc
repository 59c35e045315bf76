// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/cgroups.h"

#include <sstream>

namespace roofbench::hardware {
namespace {

constexpr char kMount[] = "/sys/fs/cgroup";

void Add(const std::string& mount, std::string path, bool is_v2, std::vector<CgroupFolder>& folders) {
  while (true) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    folders.push_back({mount + path + "/", is_v2});
    if (path.empty()) return;
    path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

// /proc/self/cgroup: "hierarchy:controllers:path" a line; version 2 has hierarchy 0 and no controllers.
std::vector<CgroupFolder> CgroupFolders(const SystemTree& tree, const std::string& controller) {
  const std::string v1_mount = std::string(kMount) + "/" + controller;
  std::vector<CgroupFolder> folders;
  std::istringstream lines(tree.Text("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    if (second == first + 1) Add(kMount, path, /*is_v2=*/true, folders);
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    for (std::string one; std::getline(controllers, one, ',');) {
      if (one == controller) Add(v1_mount, path, /*is_v2=*/false, folders);
    }
  }
  if (folders.empty()) {
    Add(kMount, "", /*is_v2=*/true, folders);
    Add(v1_mount, "", /*is_v2=*/false, folders);
  }
  return folders;
}

}  // namespace roofbench::hardware
