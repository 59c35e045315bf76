// SPDX-License-Identifier: Apache-2.0
#include "lib/run/shared_state.h"

#include <sys/mman.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace roofbench {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<std::size_t>::is_always_lock_free &&
              std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// Repeats of a signal arrive within moments; a user's second Ctrl-C does not.
constexpr nanoseconds kEcho = std::chrono::milliseconds(300);

// Time since system start, comparable across processes: never 0.
int64_t Now() { return std::chrono::duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count(); }

}  // namespace

SharedState::SharedState(std::size_t cases) : bytes_(sizeof(Page) + cases * sizeof(std::atomic<bool>)) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "memory to share with a process");
  page_ = new (memory) Page();
  auto* flags = reinterpret_cast<std::atomic<bool>*>(page_ + 1);
  for (std::size_t i = 0; i < cases; ++i) new (flags + i) std::atomic<bool>(false);
  shown_ = {flags, cases};
}

SharedState::~SharedState() { munmap(page_, bytes_); }

void SharedState::BeginCase(std::size_t index, int repetition) {
  page_->index = index;
  page_->repetition = repetition;
  page_->began_ns = Now();
}

void SharedState::EndCase() { page_->began_ns = 0; }

std::optional<RunningCase> SharedState::running() const {
  const int64_t began = page_->began_ns;
  if (began == 0) return std::nullopt;
  return RunningCase{
      .index = page_->index,
      .repetition = page_->repetition,
      .began = steady_clock::time_point(std::chrono::duration_cast<steady_clock::duration>(nanoseconds(began)))};
}

SharedState::Request SharedState::Interrupt(int signal) {
  int none = 0;
  const int64_t now = Now();
  if (page_->signal.compare_exchange_strong(none, signal)) {
    page_->signalled_ns = now;
    return Request::kFirst;
  }
  const int64_t first = page_->signalled_ns;
  return first == 0 || nanoseconds(now - first) < kEcho ? Request::kEcho : Request::kAgain;
}

}  // namespace roofbench
