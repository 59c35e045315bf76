// LibTorch's automatic mixed precision as a scope.
#pragma once

#include <ATen/autocast_mode.h>

namespace roofbench::models {

// While it lives, products on the CPU run in bf16 where `on`.
class Autocast {
 public:
  explicit Autocast(bool on) : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, on);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast() {
    // The cache holds casts of this step's weights; the next step's weights are others.
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, before_);
  }

 private:
  bool before_;
};

}  // namespace roofbench::models
