// LibTorch's automatic mixed precision as a scope.
#pragma once

#include <ATen/autocast_mode.h>

namespace roofbench::models {

// While it lives, products on the device run in bf16 where `on`.
class Autocast {
 public:
  explicit Autocast(bool on, at::DeviceType device = at::kCPU)
      : device_(device),
        before_(at::autocast::is_autocast_enabled(device)),
        dtype_before_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, on);
    at::autocast::set_autocast_dtype(device, at::kBFloat16);  // CUDA's default is fp16
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast() {
    // The cache holds casts of this step's weights; the next step's weights are others.
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, before_);
    at::autocast::set_autocast_dtype(device_, dtype_before_);
  }

 private:
  at::DeviceType device_;
  bool before_;
  at::ScalarType dtype_before_;
};

}  // namespace roofbench::models
