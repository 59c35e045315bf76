// SPDX-License-Identifier: Apache-2.0
// Chooses between a kernel of ours and LibTorch's by measuring both, for each class of shapes once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench {

// An operation on `rows` rows with the same other sizes. A choice holds for all numbers of rows with one power of two
// above them.
struct ShapeClass {
  std::string_view operation;  // a literal
  at::ScalarType type = at::kBFloat16;
  int64_t rows = 0;
  int64_t n = 0;
  int64_t k = 0;
  int threads = 1;
  auto operator<=>(const ShapeClass&) const = default;
};

// Threads may share one.
class MeasuredChoice {
 public:
  using Function = kernels::FunctionRef<void()>;
  using Timer = std::function<double(Function run)>;  // runs it, and returns the seconds that it took

  MeasuredChoice() : MeasuredChoice(WallSeconds) {}
  explicit MeasuredChoice(Timer timer) : timer_(std::move(timer)) {}
  // One for all models of the process; nullptr in a build with ROOFBENCH_EMULATE_TILES: emulated tiles never win, but
  // are what it tests.
  static MeasuredChoice* OfProcess();

  // Whether ours is at least as fast. Runs both several times if the class is new, so neither may change its operands.
  bool TakesOurs(ShapeClass shape, Function ours, Function library);

 private:
  static double WallSeconds(Function run);

  const Timer timer_;
  std::mutex mutex_;
  std::map<ShapeClass, bool> takes_ours_;
};

}  // namespace roofbench
