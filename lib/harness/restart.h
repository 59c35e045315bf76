// Starts the program anew in its own place: the one sound way to be rid of a step that hangs, for a thread cannot be
// killed.
#pragma once

#include <string>
#include <vector>

namespace roofbench {

class Restart {
 public:
  // Keeps the command line and the environment as they are now: before anything changes them.
  Restart(int argc, char** argv);

  // How this process came to be: whether by a restart, and the signal that had reached the one before (0: none).
  bool restarted() const { return restarted_; }
  int signal() const { return signal_; }

  // Executes the program's own file with the same command line and --resume. `signal` is handed on. Returns only if
  // that fails, with the reason. May be called from any thread.
  std::string Execute(int signal) const;

 private:
  std::vector<std::string> arguments_;
  std::vector<std::string> environment_;
  bool restarted_ = false;
  int signal_ = 0;
};

}  // namespace roofbench
