// SPDX-License-Identifier: Apache-2.0
#include "tests/emulated/fiber.h"

#include <cstdint>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace roofbench::emulated {

Fiber::Fiber() : stack_(std::make_unique_for_overwrite<std::byte[]>(kStackBytes)) {
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  // makecontext passes integers.
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::Start), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
  // AddressSanitizer would clear its state for the whole stack, which takes long, each time that it is entered.
  inside_.uc_stack = {};
}

void Fiber::Switch(ucontext_t* from, const ucontext_t* to, [[maybe_unused]] const void* stack,
                   [[maybe_unused]] std::size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack, bytes);
#endif
  swapcontext(from, to);
#ifdef __SANITIZE_ADDRESS__
  const bool inside = from == &inside_;
  __sanitizer_finish_switch_fiber(fake_stack, inside ? &outside_stack_ : nullptr, inside ? &outside_bytes_ : nullptr);
#endif
}

void Fiber::Start(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &self->outside_stack_, &self->outside_bytes_);
#endif
  self->RunBodies();
}

void Fiber::RunBodies() {
  for (;;) {
    try {
      body_();
    } catch (...) {
      thrown_ = std::current_exception();
    }
    ended_ = true;
    Leave();
  }
}

void Fiber::Begin(std::function<void()> body) {
  body_ = std::move(body);
  ended_ = false;
}

void Fiber::Enter() {
  Switch(&outside_, &inside_, stack_.get(), kStackBytes);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void Fiber::Leave() { Switch(&inside_, &outside_, outside_stack_, outside_bytes_); }

}  // namespace roofbench::emulated
