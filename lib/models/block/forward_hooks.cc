// SPDX-License-Identifier: Apache-2.0
#include "lib/models/block/forward_hooks.h"

namespace roofbench::models {

ForwardHooks& NoHooks() {
  static ForwardHooks none;
  return none;
}

}  // namespace roofbench::models
