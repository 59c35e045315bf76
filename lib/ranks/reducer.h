// SPDX-License-Identifier: Apache-2.0
// LibTorch's own Reducer over a backend of c10d.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>
#include <vector>

#include "lib/ranks/group.h"

namespace roofbench::ranks {

// A thread of the backend releases its reference to the tensors only after it has woken the waiter. This waits for
// that, too, which takes a processor that another rank may need.
void WaitAndRelease(c10::intrusive_ptr<c10d::Work> work);

// `backend`, of this type, exchanges what lies on the device of the parameters.
std::unique_ptr<Reducer> ReducerOver(c10::intrusive_ptr<c10d::Backend> backend, c10d::ProcessGroup::BackendType type,
                                     const std::vector<at::Tensor>& parameters);

}  // namespace roofbench::ranks
