// SPDX-License-Identifier: Apache-2.0
// Where the limits of this process's cgroups are.
#pragma once

#include <string>
#include <vector>

#include "lib/hardware/system_tree.h"

namespace roofbench::hardware {

struct CgroupFolder {
  std::string path;  // with a slash at its end
  bool is_v2 = true;
};

// The folders whose limits of `controller` ("memory", "cpu") hold for this process: its cgroup's and those of all its
// ancestors. Inside a container /proc/self/cgroup may name a path of the host, which is not mounted here; the
// container's own limit then stands at the mount itself, the last folder.
std::vector<CgroupFolder> CgroupFolders(const SystemTree& tree, const std::string& controller);

}  // namespace roofbench::hardware
