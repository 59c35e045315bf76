// SPDX-License-Identifier: Apache-2.0
// The distribution of a kernel's work over threads: the caller provides the threads, the kernel states the parallel
// parts.
//
// A kernel is written once and runs in two ways, by the ParallelFor that it is given:
// - fork and join: one thread calls the kernel, and each ParallelFor call wakes a pool (SerialFor, ThreadPool);
// - inside a region: every thread of a pool calls the same kernel with the same arguments, and each ParallelFor call
//   does the share of the calling thread and waits for the others (Worker). A whole token is then one region.
// For the second, the code of a kernel between its ParallelFor calls must be the same on every thread, and may write
// only to the thread's own memory.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace roofbench::kernels {

// A callable that is borrowed, not owned: it must outlive the call that it is passed to.
template <typename Signature>
class FunctionRef;

template <typename Result, typename... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  template <typename Callable>
  requires(!std::same_as<std::remove_cvref_t<Callable>, FunctionRef> &&
           std::is_invocable_r_v<Result, Callable&, Arguments...>)
      FunctionRef(Callable&& callable)  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload)
      : callable_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* borrowed, Arguments... arguments) -> Result {
          return (*static_cast<std::remove_reference_t<Callable>*>(borrowed))(arguments...);
        }) {}
  Result operator()(Arguments... arguments) const { return call_(callable_, arguments...); }

 private:
  void* callable_;
  Result (*call_)(void*, Arguments...);
};

constexpr int64_t CeilDiv(int64_t n, int64_t by) { return (n + by - 1) / by; }
constexpr int64_t RoundUp(int64_t n, int64_t to) { return CeilDiv(n, to) * to; }

// A half-open range of items.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// Share `index` of `shares` contiguous shares of [0, n), as even as bounds on multiples of `grain` allow; some are
// empty where there are fewer grains than shares.
constexpr Range Share(int64_t n, int64_t grain, int index, int shares) {
  const int64_t grains = CeilDiv(n, grain);
  const auto bound = [&](int64_t share) { return std::min(n, grains * share / shares * grain); };
  return {bound(index), bound(index + 1)};
}

class ParallelFor {
 public:
  using Body = FunctionRef<void(Range)>;

  ParallelFor() = default;
  ParallelFor(const ParallelFor&) = delete;
  ParallelFor& operator=(const ParallelFor&) = delete;
  virtual ~ParallelFor() = default;

  // The number of shares that a range is split into.
  virtual int threads() const = 0;
  // Calls body(Share(n, grain, i, threads())) for every i whose share is not empty, each from its own thread where
  // there are enough, and returns when all shares are done. A body must not throw.
  virtual void operator()(int64_t n, int64_t grain, Body body) const = 0;
  void operator()(int64_t n, Body body) const { (*this)(n, 1, body); }
};

// Runs everything on the calling thread.
class SerialFor final : public ParallelFor {
 public:
  using ParallelFor::operator();
  int threads() const override { return 1; }
  void operator()(int64_t n, int64_t /*grain*/, Body body) const override {
    if (n > 0) body({0, n});
  }
};

}  // namespace roofbench::kernels
