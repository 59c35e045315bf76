// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/pressure.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sstream>

#include "lib/kernels/threading/wait_policy.h"

namespace roofbench::hardware {
namespace {

constexpr int kNaps = 10;
constexpr int64_t kNapNanoseconds = 10'000'000;  // the system counts hundredths of a second

// Any of them is a choice of the user's, or the process is a rank, which has its parent's environment, or starts among
// others that are not other programs.
constexpr std::array kVariables = {kernels::kWaitPolicy, "GOMP_SPINCOUNT", "KMP_BLOCKTIME", kLeaveAlone,
                                   "ROOFBENCH_RANK",     "RANK",           "SLURM_PROCID"};

bool IsSet(const char* variable, const char* entry) {
  const std::size_t length = std::strlen(variable);
  return std::strncmp(entry, variable, length) == 0 && entry[length] == '=';
}

std::array<char, 32> g_policy{"OMP_WAIT_POLICY=passive"};
std::array<char, 32> g_block_time{"KMP_BLOCKTIME=0"};  // of Intel's and LLVM's runtime

// The beginning of a file, with a final 0; empty if it cannot be read.
using Text = std::array<char, 256>;

Text BeginningOf(const char* root, const char* path) {
  std::array<char, 512> name{};
  Text text{};
  const int length = std::snprintf(name.data(), name.size(), "%s%s", root, path);
  if (length < 0 || static_cast<std::size_t>(length) >= name.size()) return text;
  const int file = open(name.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  if (read(file, text.data(), text.size() - 1) < 0) text[0] = '\0';
  close(file);
  return text;
}

// Threads that run or wait for a processor, without the calling one: proc_loadavg(5), "0.20 0.18 0.12 1/80 11206".
double OthersRunning(const char* root) {
  const Text text = BeginningOf(root, "/proc/loadavg");
  const char* at = text.data();
  for (int field = 0; field < 3 && at != nullptr; ++field) {
    at = std::strchr(at, ' ');
    if (at != nullptr) ++at;
  }
  return at == nullptr ? 0 : std::max(0.0, std::strtod(at, nullptr) - 1);
}

// Of all processors since the start of the system, in ticks: proc_stat(5), whose first line is "cpu  user nice system
// idle iowait irq softirq steal …".
struct Ticks {
  double taken = 0;
  double all = 0;
};

Ticks ReadTicks(const char* root) {
  const Text text = BeginningOf(root, "/proc/stat");
  Ticks ticks;
  if (std::strncmp(text.data(), "cpu ", 4) != 0) return ticks;
  char* at = nullptr;
  const char* from = text.data() + 4;
  constexpr int kIdle = 3;
  constexpr int kWaitsForDisk = 4;
  constexpr int kFields = 8;
  for (int field = 0; field < kFields; ++field, from = at) {
    const double count = std::strtod(from, &at);
    ticks.all += count;
    if (field != kIdle && field != kWaitsForDisk) ticks.taken += count;
  }
  return ticks;
}

}  // namespace

double Pressure::SlowerBy(int threads) const {
  return std::max(1.0, (others_running + threads) / std::max(1, processors));
}

Pressure ReadPressure(const char* root) {
  Pressure pressure = {.processors = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)))};
  if (OthersRunning(root) < kMostOthers * pressure.processors) return pressure;
  const Ticks before = ReadTicks(root);
  for (int nap = 0; nap < kNaps; ++nap) {
    const timespec time = {.tv_sec = 0, .tv_nsec = kNapNanoseconds};
    nanosleep(&time, nullptr);  // this process is idle meanwhile
    pressure.others_running += OthersRunning(root) / kNaps;
  }
  const Ticks after = ReadTicks(root);
  if (after.all > before.all) pressure.others_share = (after.taken - before.taken) / (after.all - before.all);
  return pressure;
}

std::string PressureText(const Pressure& pressure, int threads, const WaysOut& ways) {
  if (!pressure.IsHigh()) return "";
  const auto times = [&](int with) {
    const double tenths = std::round(10 * pressure.SlowerBy(with)) / 10;
    if (tenths == 1) return std::string("as long as alone");
    std::ostringstream said;
    said << "about " << (tenths < 10 ? tenths : std::round(pressure.SlowerBy(with))) << " times as long as alone";
    return said.str();
  };
  std::ostringstream text;
  const auto running = std::lround(pressure.others_running);
  text << "other programs use " << std::lround(100 * pressure.others_share) << " % of the processors (" << running
       << (running == 1 ? " thread runs or waits for " : " threads run or wait for ") << pressure.processors
       << "): a case takes " << times(threads) << ", and no time can be judged; end them (top shows them)";
  if (*ways.wait != '\0') text << ", or " << ways.wait;
  if (threads > 1) text << "; with " << ways.one_thread << ' ' << times(1) << ", and no thread waits for another";
  return text.str();
}

bool YieldWhileWaiting() {
  for (const char* variable : kVariables) {
    if (std::getenv(variable) != nullptr) return false;
  }
  return putenv(g_policy.data()) == 0 && putenv(g_block_time.data()) == 0;
}

void RestartYielding(char** argv, char** environment) {
  static std::array<char*, 4096> variables{};
  std::size_t count = 0;
  for (char** entry = environment; *entry != nullptr; ++entry) {
    for (const char* variable : kVariables) {
      if (IsSet(variable, *entry)) return;
    }
    if (count + 3 >= variables.size()) return;
    variables[count++] = *entry;
  }
  variables[count++] = g_policy.data();
  variables[count] = g_block_time.data();
  // Not the link itself, which would become the name of the process.
  std::array<char, PATH_MAX> program{};
  if (readlink("/proc/self/exe", program.data(), program.size() - 1) > 0) {
    execve(program.data(), argv, variables.data());
  }
}

bool IsLeftAlone(char** environment) {
  for (char** entry = environment; *entry != nullptr; ++entry) {
    if (IsSet(kLeaveAlone, *entry)) return true;
  }
  return false;
}

std::optional<std::pair<std::string, std::string>> WaitingFact() {
  if (!kernels::YieldsWhileWaiting()) return std::nullopt;
  return std::pair("waiting_threads", std::string("yield (") + kernels::kWaitPolicy + "=passive)");
}

}  // namespace roofbench::hardware
