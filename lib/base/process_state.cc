// SPDX-License-Identifier: Apache-2.0
#include "lib/base/process_state.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>

namespace roofbench {
namespace {

mode_t Mask() {
  const mode_t mask = umask(0);
  umask(mask);
  return mask;
}

// How the thread rounds and treats denormals; not which exceptions it has seen.
unsigned Modes() {
#if defined(__SSE__)
  constexpr unsigned kSeen = 0x3f;
  return _mm_getcsr() & ~kSeen;
#else
  return static_cast<unsigned>(fegetround());
#endif
}

bool IsSame(const sigset_t& a, const sigset_t& b) {
  for (int signal = 1; signal < NSIG; ++signal) {
    if (sigismember(&a, signal) != sigismember(&b, signal)) return false;
  }
  return true;
}

}  // namespace

ProcessState::ProcessState() : folder_(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), mask_(Mask()) {
  if (folder_ >= 0) fstat(folder_, &folder_facts_);
  for (int resource = 0; resource < static_cast<int>(RLIM_NLIMITS); ++resource) {
    if (resource == static_cast<int>(RLIMIT_DATA)) continue;  // the program's own for a case, in ranks too
    Limit limit{.resource = resource, .values = {}};
    if (getrlimit(static_cast<__rlimit_resource>(resource), &limit.values) == 0) limits_.push_back(limit);
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    Handler handler{.signal = signal, .action = {}};
    sigaction(signal, nullptr, &handler.action);
    handlers_.push_back(handler);
  }
  modes_ = Modes();
  fegetenv(&arithmetic_);
}

ProcessState::~ProcessState() {
  if (folder_ >= 0) close(folder_);
}

std::vector<std::string> ProcessState::Restore() const {
  std::vector<std::string> changed;
  struct stat here {};
  const bool is_here = folder_ < 0 || (stat(".", &here) == 0 && here.st_dev == folder_facts_.st_dev &&
                                       here.st_ino == folder_facts_.st_ino);
  if (!is_here && fchdir(folder_) == 0) changed.emplace_back("the working folder");
  if (Mask() != mask_) {
    umask(mask_);
    changed.emplace_back("the mask of new files");
  }
  bool same_limits = true;
  for (const auto& [resource, values] : limits_) {
    const auto which = static_cast<__rlimit_resource>(resource);
    rlimit now{};
    getrlimit(which, &now);
    if (now.rlim_cur == values.rlim_cur && now.rlim_max == values.rlim_max) continue;
    same_limits = false;
    if (setrlimit(which, &values) == 0) continue;
    now.rlim_cur = std::min(values.rlim_cur, now.rlim_max);  // a hard limit cannot be raised again
    setrlimit(which, &now);
  }
  if (!same_limits) changed.emplace_back("the limits of resources");
  sigset_t blocked{};
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  if (!IsSame(blocked, blocked_)) {
    pthread_sigmask(SIG_SETMASK, &blocked_, nullptr);
    changed.emplace_back("the blocked signals");
  }
  bool same_handlers = true;
  for (const auto& [signal, action] : handlers_) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler == action.sa_handler) continue;
    sigaction(signal, &action, nullptr);
    same_handlers = false;
  }
  if (!same_handlers) changed.emplace_back("the handlers of signals");
  if (Modes() != modes_) {
    fesetenv(&arithmetic_);
    changed.emplace_back("the rounding or the denormals of arithmetic");
  }
  return changed;
}

}  // namespace roofbench
