// SPDX-License-Identifier: Apache-2.0
#include "lib/base/process_state.h"

#include <fcntl.h>
#include <pthread.h>
#include <strings.h>
#include <unistd.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

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

constexpr char kTasks[] = "/proc/self/task";

std::set<std::string> Threads() {
  std::set<std::string> threads;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kTasks, error)) threads.insert(entry.path().filename());
  return threads;
}

// Whether it runs or waits for a processor: on a busy machine, its processor time alone does not tell.
bool IsAtWork(const std::string& thread) {
  std::ifstream file(std::filesystem::path(kTasks) / thread / "stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.compare(name_end, 3, ") R") == 0;
}

// Whether the threads of OpenMP are told to spin for longer than by default.
bool PoolsSpin() {
  const char* const policy = std::getenv("OMP_WAIT_POLICY");
  if (policy != nullptr) return strcasecmp(policy, "active") == 0;
  return std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("KMP_BLOCKTIME") != nullptr;
}

}  // namespace

ProcessState::ProcessState() : folder_(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), mask_(Mask()) {
  if (folder_ >= 0) fstat(folder_, &folder_facts_);
  for (int resource = 0; resource < static_cast<int>(RLIM_NLIMITS); ++resource) {
    if (resource == static_cast<int>(RLIMIT_DATA)) continue;  // the program's own for a case, in ranks too
    Limit limit{.resource = resource, .values = {}};
    if (getrlimit(static_cast<__rlimit_resource>(resource), &limit.values) == 0) limits_.push_back(limit);
  }
  threads_ = Threads();
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

std::size_t ProcessState::ThreadsAtWork() const {
  constexpr int kLooks = 100;
  if (PoolsSpin()) return 0;
  std::set<std::string> started = Threads();
  std::erase_if(started, [&](const std::string& thread) { return threads_.contains(thread); });
  for (int look = 0; look < kLooks && !started.empty(); ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::erase_if(started, [](const std::string& thread) { return !IsAtWork(thread); });
  }
  return started.size();
}

}  // namespace roofbench
