// SPDX-License-Identifier: Apache-2.0
// Whether other programs take most of the processors. A thread that spins while it waits then only takes the processor
// from the thread that it waits for: a step of microseconds on two threads lasts seconds.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace roofbench::hardware {

// Where other programs take more of the processors' time than this, no time of a case says anything.
inline constexpr double kMostOthers = 0.5;

struct Pressure {
  double others_share = 0;    // of the processors' time that other programs and the hypervisor took
  double others_running = 0;  // threads of other programs that ran or waited for a processor, on average
  int processors = 1;         // of the machine

  bool IsHigh() const { return others_share > kMostOthers; }
  // How many times as long a case lasts whose threads get an equal share of the processors; 1 or more.
  double SlowerBy(int threads) const;
};

// Of a tool that compares processes, which have to wait alike, and that says itself how busy the machine is.
inline constexpr char kLeaveAlone[] = "ROOFBENCH_WAIT_POLICY";

// Looks at the machine for a tenth of a second; for no time at all if hardly another thread runs at the moment. Needs
// no initialized library, and allocates nothing. `root` replaces "/" for tests.
Pressure ReadPressure(const char* root = "");

// How a user avoids it: what waits for a quiet machine ("": nothing), and what limits a run to one thread.
struct WaysOut {
  const char* wait = "--wait_quiet=600";
  const char* one_thread = "--threads=1";
};

// "other programs use 98 % of the processors (30 threads run or wait for 2): …" for a run with so many threads, with
// what to expect and the ways out; empty unless the pressure is high.
std::string PressureText(const Pressure& pressure, int threads, const WaysOut& ways);

// Tells the runtimes of OpenMP that children of this process will load: their threads, and those of this library, yield
// the processor while they wait. False, and nothing is changed, if the environment has a setting of its own.
bool YieldWhileWaiting();

// The same for this process, which starts again with these variables: the C library takes the environment of the start
// only, and a runtime that is linked reads it before anything of the program runs. Returns if the environment has a
// setting of its own, or if the system does not permit it. Call it before libraries are initialized.
void RestartYielding(char** argv, char** environment);

// Whether an environment, such as that of main, has kLeaveAlone.
bool IsLeftAlone(char** environment);

// The fact of a result that says so; nullopt if the threads spin, as usual.
std::optional<std::pair<std::string, std::string>> WaitingFact();

}  // namespace roofbench::hardware
