// SPDX-License-Identifier: Apache-2.0
// What the query heads of a group found among some of their keys; parts are put together by the weight of each.
#pragma once

namespace roofbench::kernels {

struct AttendedPart {
  float* y;  // [group, head_dim]: softmax over these keys alone
  // [group]: the logarithm of the sum of exp(score); nullptr where no other part follows.
  float* weight;
};

}  // namespace roofbench::kernels
