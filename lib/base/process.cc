// SPDX-License-Identifier: Apache-2.0
#include "lib/base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

std::string& Name() {
  static auto* name = new std::string("roofbench");
  return *name;
}

// Added to a child's OOM score, in thousandths.
constexpr int kKilledFirst = 100;

void (*g_closed)(int) = nullptr;

void OnBrokenPipe(int broken_pipe) {
  const int error = errno;
  std::array<pollfd, 2> streams{pollfd{STDOUT_FILENO, 0, 0}, pollfd{STDERR_FILENO, 0, 0}};
  poll(streams.data(), streams.size(), 0);
  for (const pollfd& stream : streams) {
    if ((stream.revents & POLLERR) == 0) continue;
    if (g_closed == nullptr) {
      std::signal(broken_pipe, SIG_DFL);
      std::raise(broken_pipe);  // blocked until this handler returns
      continue;
    }
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, stream.fd);
    close(nowhere);
    g_closed(broken_pipe);
  }
  errno = error;
}

}  // namespace

const std::string& ProgramName() { return Name(); }

void SetProgramName(std::string name) { Name() = std::move(name); }

bool OpenStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // open returns the lowest free number, which is this one.
    if (open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY) != stream) return false;
  }
  return true;
}

void SurviveBrokenConnections(void (*closed)(int)) {
  if (closed != nullptr) g_closed = closed;
  struct sigaction action {};
  if (sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = OnBrokenPipe;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, nullptr);
}

absl::StatusOr<ChildResult> RunChild(const std::vector<std::string>& arguments) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return absl::InternalError(absl::StrCat("pipe: ", std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return absl::NotFoundError(absl::StrCat(arguments.front(), " cannot be run: ", std::strerror(error)));
  }
  ChildResult result;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t count = read(ends[0], buffer.data(), buffer.size());
    if (count == 0 || (count < 0 && errno != EINTR)) break;
    if (count > 0) result.output.append(buffer.data(), static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

std::string DescribeEnd(int wait_status) {
  if (WIFEXITED(wait_status)) return absl::StrCat("ended with exit status ", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  if (signal == SIGKILL) return "killed (SIGKILL), most likely by the system for memory";
  const char* name = sigabbrev_np(signal);
  return absl::StrCat("crashed (", name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name), ", ",
                      strsignal(signal), ")");
}

bool BeSupervisedBy(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return false;  // it ended before this process requested its death signal
  constexpr char kScore[] = "/proc/self/oom_score_adj";
  constexpr int kMost = 1000;
  int score = 0;
  if (std::ifstream file(kScore); file >> score) std::ofstream(kScore) << std::min(score + kKilledFirst, kMost);
  return true;
}

}  // namespace roofbench
