// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lib/aten/measured_choice.h"

namespace roofbench::models {

// A choice whose timer says who is faster.
class Race {
 public:
  explicit Race(bool ours) : ours_(ours) {}
  MeasuredChoice* choice() { return &choice_; }
  int64_t runs() const { return runs_; }

 private:
  const bool ours_;
  int64_t runs_ = 0;
  MeasuredChoice choice_{[this](MeasuredChoice::Function run) {
    run();
    const bool is_ours = runs_++ % 2 == 0;
    return is_ours == ours_ ? 1.0 : 2.0;
  }};
};

}  // namespace roofbench::models
