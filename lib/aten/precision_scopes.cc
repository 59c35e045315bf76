// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/precision_scopes.h"

#include <ATen/autocast_mode.h>

namespace roofbench {

Autocast::Autocast(bool on, at::DeviceType device) : on_(on), device_(device) {
  if (!on_) return;
  before_ = at::autocast::is_autocast_enabled(device);
  dtype_before_ = at::autocast::get_autocast_dtype(device);
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::set_autocast_dtype(device, at::kBFloat16);  // CUDA's default is fp16
}

Autocast::~Autocast() {
  if (!on_) return;
  // The cache holds casts of this step's weights, which the next step has changed.
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
}

bool Autocast::IsOn(at::DeviceType device) { return at::autocast::is_autocast_enabled(device); }

}  // namespace roofbench
