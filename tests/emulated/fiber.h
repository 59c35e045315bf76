// SPDX-License-Identifier: Apache-2.0
// A separate stack for functions that can be left and entered again, announced to AddressSanitizer.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

namespace roofbench::emulated {

class Fiber {
 public:
  static constexpr std::size_t kStackBytes = 128 * 1024;

  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next Enter begins it. The last body has ended.
  void Begin(std::function<void()> body);
  // Runs the body until it calls Leave or ends. Throws what the body threw. A fiber that is destroyed before its body
  // ended abandons it: objects on its stack are not destroyed.
  void Enter();
  // Returns to the caller of Enter. Called from the body.
  void Leave();
  bool ended() const { return ended_; }

 private:
  static void Start(unsigned high, unsigned low);
  [[noreturn]] void RunBodies();
  void Switch(ucontext_t* from, const ucontext_t* to, const void* stack, std::size_t bytes);

  std::unique_ptr<std::byte[]> stack_;
  std::function<void()> body_;
  std::exception_ptr thrown_;
  bool ended_ = true;
  ucontext_t inside_ = {};
  ucontext_t outside_ = {};
  const void* outside_stack_ = nullptr;
  std::size_t outside_bytes_ = 0;
};

}  // namespace roofbench::emulated
