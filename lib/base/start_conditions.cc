// SPDX-License-Identifier: Apache-2.0
#include "lib/base/start_conditions.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

namespace roofbench {
namespace {

constexpr rlim_t kUsualStack = rlim_t{8} << 20;
// Loading LibTorch takes more than 64 kB, and no library says what a step of its takes.
constexpr rlim_t kLeastStack = rlim_t{1} << 20;

}  // namespace

const char* WhyNotToStart() {
  std::array<char, PATH_MAX> folder{};
  if (getcwd(folder.data(), folder.size()) != nullptr || errno != ENOENT) return nullptr;
  return "the working folder has been deleted: change to one that exists (cd)";
}

const char* RaiseStackLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kUsualStack) return nullptr;
  rlimit usual = {.rlim_cur = kUsualStack, .rlim_max = std::max(limit.rlim_max, kUsualStack)};
  if (setrlimit(RLIMIT_STACK, &usual) != 0) {
    usual = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};  // more needs a privilege
    if (setrlimit(RLIMIT_STACK, &usual) != 0) usual = limit;
  }
  if (usual.rlim_cur < kLeastStack) {
    return "the stack of a process is limited to less than 1 MB, which its libraries may exceed: raise the limit "
           "(ulimit -s 8192), or where that is not permitted the hard limit of the shell or container";
  }
  // The system's C library has read the old limit for the stacks of threads.
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) == 0) {
    pthread_attr_setstacksize(&attributes, usual.rlim_cur);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
  }
  return nullptr;
}

}  // namespace roofbench
