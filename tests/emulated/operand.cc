// SPDX-License-Identifier: Apache-2.0
#include "tests/emulated/operand.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace roofbench::emulated {
namespace {

constexpr std::size_t kAlignment = 16;

// The default action, which follows, ends the program.
void ReportAccess(int /*signal*/) {
  constexpr char kText[] = "\nA thread of a kernel accesses memory outside its operands.\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
}

[[maybe_unused]] const bool kReports = [] {
  struct sigaction action = {};
  action.sa_handler = &ReportAccess;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  return sigaction(SIGSEGV, &action, nullptr) == 0;
}();

}  // namespace

GuardedMemory::GuardedMemory(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t usable = (bytes + page - 1) / page * page;
  pages_bytes_ = usable + 2 * page;
  void* const mapped =
      mmap(nullptr, pages_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  pages_ = static_cast<std::byte*>(mapped);
  mprotect(pages_, page, PROT_NONE);
  mprotect(pages_ + page + usable, page, PROT_NONE);
  const std::size_t slack = (usable - bytes) % kAlignment;
  data_ = pages_ + page + usable - bytes - slack;
  std::memset(data_ + bytes, 0xff, slack);
}

GuardedMemory::~GuardedMemory() {
  if (pages_ != nullptr) munmap(pages_, pages_bytes_);
}

}  // namespace roofbench::emulated
