// SPDX-License-Identifier: Apache-2.0
// Failures of every kind, between successful cases: a program that tests the harness.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/cli/main.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/elementwise.h"

namespace roofbench {
namespace {

struct Foreign {};  // a thrown value need not be an exception

// A page of a mapping beyond the end of its file: the system sends SIGBUS.
void ReadBeyondTheFile() {
  constexpr std::size_t kPage = 4096;
  const int file = memfd_create("truncated", MFD_CLOEXEC);
  if (ftruncate(file, kPage) != 0) throw std::runtime_error("no file to map");
  void* memory = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED || ftruncate(file, 0) != 0) throw std::runtime_error("no mapping to read");
  std::cerr << *static_cast<volatile char*>(memory);
}

constexpr rlim_t kFewFiles = 64;

// What the next case would run with.
void LeaveStateChanged() {
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = kFewFiles;
  umask(0777);
  if (chdir("/") != 0 || sigprocmask(SIG_BLOCK, &ending, nullptr) != 0 || setrlimit(RLIMIT_NOFILE, &files) != 0) {
    throw std::runtime_error("the state cannot be changed");
  }
}

void ExpectStateOfTheStart() {
  const mode_t mask = umask(0);
  umask(mask);
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  if (mask == 0777 || sigismember(&blocked, SIGTERM) == 1 || files.rlim_cur == kFewFiles ||
      std::filesystem::current_path() == "/") {
    throw std::runtime_error("another case's state");
  }
}

// Until it has been alone for longer than the run takes.
void LeaveAProcess() {
  if (fork() != 0) return;
  for (const int stream : {0, 1, 2}) close(stream);
  alarm(60);
  pause();
  _exit(0);
}

void Misbehave(const std::string& how) {
  constexpr int64_t kPebibyte = int64_t{1} << 50;
  constexpr int64_t kMebibyte = 1 << 20;
  if (how == "throws") throw std::runtime_error("the kernel broke");
  if (how == "foreign") throw Foreign{};
  if (how == "overrun") at::empty({kPebibyte}, at::kByte);
  if (how == "bad_alloc") throw std::bad_alloc();
  if (how == "creeps") {
    // Small allocations that fit individually: the system would end the process.
    std::vector<at::Tensor> pieces;
    while (true) pieces.push_back(at::empty({64 * kMebibyte}, at::kByte));
  }
  if (how == "segv") *static_cast<volatile int*>(nullptr) = 1;  // NOLINT: on purpose
  if (how == "aborts") std::abort();
  if (how == "bus") ReadBeyondTheFile();
  if (how == "fpe") std::raise(SIGFPE);
  if (how == "illegal") __builtin_trap();
  if (how == "killed") std::raise(SIGKILL);  // as the system does for memory
  if (how == "exits") std::_Exit(7);
  static bool has_left = false;
  if (how == "moves") LeaveStateChanged();
  if (how == "looks") ExpectStateOfTheStart();
  if (how == "pipes") std::raise(SIGPIPE);
  if (how == "forks" && !std::exchange(has_left, true)) LeaveAProcess();
  if (how == "spins" && !std::exchange(has_left, true)) {
    std::thread([] {
      const volatile bool ends = false;
      while (!ends) {
      }
    }).detach();
  }
  if (how == "prints") {
    const std::string megabyte(1'000'000, 'x');
    std::cout << megabyte << std::flush;
    std::cerr << megabyte;
  }
  if (how == "hangs") {
    std::cerr << "hanging" << std::endl;
    while (true) sleep(1);
  }
}

struct Operands {
  std::string how;
  at::Tensor x, y;
};

absl::StatusOr<Operands> Make(const Point& at, Inputs& in) {
  const std::string how = at.Text("how");
  if (how == "refuses") return absl::UnimplementedError("no kernel for this");
  std::cerr << "built by " << getpid() << std::endl;
  return Operands{how, in.Randn({1024}), in.Empty({1024}, workload::Dtype::kFp32)};
}

// The order is that of the run: a good case follows the bad ones.
const std::vector<std::string> kHow = {"good",      "throws", "foreign", "wrong",  "refuses", "overrun",
                                       "bad_alloc", "creeps", "segv",    "aborts", "bus",     "fpe",
                                       "illegal",   "killed", "exits",   "hangs",  "last"};

// One that writes between the rows of the console is not among the points, nor are those that leave something behind.
const std::vector<std::string> kAllHow = [] {
  std::vector<std::string> all = kHow;
  for (const char* how : {"prints", "moves", "looks", "spins", "forks", "pipes"}) all.emplace_back(how);
  return all;
}();

const Registration kPlanted = FamilyOf<Operands>("planted", "what goes wrong")
                                  .Choice("how", kAllHow)
                                  .Work([](const Point&) { return workload::CopyStream{4096}.Cost(); })
                                  .Operands(Make)
                                  .Reference([](const Operands& o) { return o.x.to(at::kDouble).add(1); })
                                  .Impl("eager",
                                        [](Operands& o) {
                                          Misbehave(o.how);
                                          o.y.copy_(o.x).add_(o.how == "wrong" ? 1.001 : 1.0);
                                        })
                                  .Points(Suite::kQuick, {{"how", kHow}, {"cache", {kWarm}}});

// Faults of one of several ranks.
struct RankOperands {
  std::string how;
  at::Tensor y;
  ranks::Group* group;
};

absl::StatusOr<RankOperands> MakeRank(const Point& at, Inputs& in) {
  ranks::Group& group = in.group();
  // One write, which those of other ranks cannot split.
  std::cerr << "rank " + std::to_string(group.rank()) + " is " + std::to_string(getpid()) + "\n";
  const std::string how = at.Text("how");
  if (how == "refuses" && group.rank() == 1) return absl::UnimplementedError("no kernel for this");
  return RankOperands{how, in.Empty({1024}, workload::Dtype::kFp32), &group};
}

const std::vector<std::string> kRankHow = {"good", "throws", "refuses", "wrong", "killed", "exits", "hangs", "last"};

const Registration kPlantedRanks =
    FamilyOf<RankOperands>("planted_ranks", "what goes wrong on one of several ranks")
        .Choice("how", kRankHow)
        .Size(kRanksAxis)
        .Work([](const Point&) { return workload::CopyStream{4096}.Cost(); })
        .Operands(MakeRank)
        .Reference([](const RankOperands& o) { return at::full({1024}, o.group->size(), at::kDouble); })
        .Impl("eager",
              [](RankOperands& o) {
                o.y.fill_(1);
                if (o.group->rank() == o.group->size() - 1) Misbehave(o.how);
                o.group->AllReduce(o.y);
                if (o.group->rank() == 1 && o.how == "wrong") o.y.add_(1);
              })
        .Points(Suite::kFull, {{"how", kRankHow}, {kRanksAxis, {2}}, {"cache", {kWarm}}});

}  // namespace
}  // namespace roofbench

int main(int argc, char** argv) { roofbench::Leave(roofbench::Main(argc, argv)); }
