// SPDX-License-Identifier: Apache-2.0
#include "tests/emulated/fiber.h"

#include <cstdint>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace roofbench::emulated {

Fiber::Fiber(std::byte* stack, std::function<void()> body) : stack_(stack), body_(std::move(body)) {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(stack, kStackBytes);  // the last fiber of this stack left its frames
#endif
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack;
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  // makecontext passes integers.
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::Start), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
}

void Fiber::Switch(ucontext_t* from, const ucontext_t* to, [[maybe_unused]] const void* stack,
                   [[maybe_unused]] std::size_t bytes, [[maybe_unused]] bool for_ever) {
#ifdef __SANITIZE_ADDRESS__
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(for_ever ? nullptr : &fake_stack, stack, bytes);
#endif
  swapcontext(from, to);
#ifdef __SANITIZE_ADDRESS__
  const void* last_stack = nullptr;
  std::size_t last_bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack, &last_stack, &last_bytes);
  if (from == &inside_) {
    outside_stack_ = last_stack;
    outside_bytes_ = last_bytes;
  }
#endif
}

void Fiber::Start(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &self->outside_stack_, &self->outside_bytes_);
#endif
  try {
    self->body_();
  } catch (...) {
    self->thrown_ = std::current_exception();
  }
  self->ended_ = true;
  self->Switch(&self->inside_, &self->outside_, self->outside_stack_, self->outside_bytes_, true);
}

void Fiber::Enter() {
  Switch(&outside_, &inside_, stack_, kStackBytes, false);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void Fiber::Leave() { Switch(&inside_, &outside_, outside_stack_, outside_bytes_, false); }

}  // namespace roofbench::emulated
