// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program, it calls the program's main many times, each time in a child process of its own: to load
// LibTorch takes half a second of a start, and the test of damaged files starts thousands. What runs is the program
// itself, from the first line of its main.
//
// A request is a line of standard input: the file for the child's standard output, that for its standard error, and the
// arguments, separated by the unit separator (0x1f). The answer is a line of standard output: the exit status, or minus
// the number of the signal that ended the child.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace {

using Main = int(int, char**, char**);
using Start = int(Main*, int, char**, void (*)(), void (*)(), void (*)(), void*);

Main* program_main = nullptr;

constexpr char kSeparator = '\x1f';
constexpr unsigned kLongestSeconds = 300;

void Redirect(const char* path, int flags, int descriptor) {
  constexpr mode_t kMode = 0600;
  const int file = open(path, flags, kMode);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  if (file < 0 || dup2(file, descriptor) < 0) _exit(EXIT_FAILURE);
  close(file);
}

int Serve(int, char** argv, char** environment) {
  unsetenv("LD_PRELOAD");
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> words(1);
    for (const char letter : line) letter == kSeparator ? void(words.emplace_back()) : words.back().push_back(letter);
    if (words.size() < 2) return EXIT_FAILURE;
    const pid_t child = fork();
    if (child == 0) {
      Redirect("/dev/null", O_RDONLY, STDIN_FILENO);
      Redirect(words[0].c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
      Redirect(words[1].c_str(), O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
      std::vector<char*> arguments = {argv[0]};
      for (std::size_t i = 2; i < words.size(); ++i) arguments.push_back(words[i].data());
      arguments.push_back(nullptr);
      alarm(kLongestSeconds);
      std::exit(program_main(static_cast<int>(arguments.size()) - 1, arguments.data(), environment));
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return EXIT_FAILURE;
    std::cout << (WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status)) << std::endl;
  }
  return EXIT_SUCCESS;
}

}  // namespace

// Called by the program's entry point in place of that of the C library.
extern "C" int __libc_start_main(Main* main, int argc, char** argv, void (*init)(), void (*fini)(), void (*rtld_fini)(),
                                 void* stack_end) {
  program_main = main;
  auto* const start = reinterpret_cast<Start*>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(Serve, argc, argv, init, fini, rtld_fini, stack_end);
}
