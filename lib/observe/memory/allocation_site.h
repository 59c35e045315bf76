// SPDX-License-Identifier: Apache-2.0
// Who asks for memory at this moment: the ranges and the operator that are open on this thread.
#pragma once

#include <memory>
#include <string>

namespace roofbench::observe {

// While it lives, ranges and operators of this thread, and of autograd's that work for it, are followed. It begins and
// ends outside of any range; one at a time.
class AllocationSites {
 public:
  AllocationSites();
  AllocationSites(const AllocationSites&) = delete;
  AllocationSites& operator=(const AllocationSites&) = delete;
  ~AllocationSites();

  // "forward/block 3/attention/aten::bmm": the open ranges but `step`, and the outermost operator in them. A function
  // of the backward pass is in the part of the model whose operator it derives:
  // "backward/block 3/attention/BmmBackward0". Empty where nothing is open.
  static std::string Now();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace roofbench::observe
