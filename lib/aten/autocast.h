// SPDX-License-Identifier: Apache-2.0
// LibTorch's automatic mixed precision as a scope.
#pragma once

#include <ATen/autocast_mode.h>

namespace roofbench {

// While it lives, products on the device run in bf16 if `on`; otherwise nothing changes.
class Autocast {
 public:
  Autocast(bool on, at::DeviceType device) : on_(on), device_(device) {
    if (!on_) return;
    before_ = at::autocast::is_autocast_enabled(device);
    dtype_before_ = at::autocast::get_autocast_dtype(device);
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::set_autocast_dtype(device, at::kBFloat16);  // CUDA's default is fp16
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast() {
    if (!on_) return;
    // The cache holds casts of this step's weights; the next step's weights are others.
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, before_);
    at::autocast::set_autocast_dtype(device_, dtype_before_);
  }

 private:
  const bool on_;
  const at::DeviceType device_;
  bool before_ = false;
  at::ScalarType dtype_before_ = at::kBFloat16;
};

}  // namespace roofbench
