#include "lib/harness/restart.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/hardware/memory_limit.h"

namespace roofbench {
namespace {

constexpr char kVariable[] = "ROOFBENCH_RESTARTED";  // its value: the signal

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Files that this process has open must not stay open in the next: a journal's lock would outlive it.
void CloseFilesOnExecute() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int file = std::atoi(entry.path().filename().c_str());
    if (file > STDERR_FILENO) fcntl(file, F_SETFD, FD_CLOEXEC);
  }
}

}  // namespace

Restart::Restart(int argc, char** argv) : arguments_(argv, argv + argc) {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, absl::StrCat(kVariable, "="))) environment_.emplace_back(*variable);
  }
  if (const char* value = std::getenv(kVariable); value != nullptr) {
    restarted_ = true;
    signal_ = std::atoi(value);
    unsetenv(kVariable);
  }
  const bool resumes = std::any_of(arguments_.begin(), arguments_.end(), [](const std::string& argument) {
    return argument == "--resume" || argument == "-resume";
  });
  if (!resumes) arguments_.emplace_back("--resume");
}

std::string Restart::Execute(int signal) const {
  std::vector<std::string> arguments = arguments_;
  std::vector<std::string> environment = environment_;
  environment.push_back(absl::StrCat(kVariable, "=", signal));
  CloseFilesOnExecute();
  hardware::LiftMemoryLimit();
  // The file that runs, also where another has taken its name.
  execve("/proc/self/exe", Pointers(arguments).data(), Pointers(environment).data());
  return std::strerror(errno);
}

}  // namespace roofbench
