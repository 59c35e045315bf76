// SPDX-License-Identifier: Apache-2.0
// The kind, FLOPs and bytes of LibTorch's operators, from their names and the shapes of their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace roofbench::observe {

enum class WorkKind { kProduct, kAttention, kSoftmax, kOther };
std::string_view Name(WorkKind kind);  // "product", "attention", "softmax", "other"

// From the name of an operator ("aten::mm"), of one of our kernels ("roofbench::rms_norm") or of a GPU kernel
// ("ampere_sgemm_…"). kAttention is an entire attention in one kernel.
WorkKind KindOfWork(std::string_view name);

// FLOPs of one call. Products and fused attention follow torch.utils.flop_counter: 2 · m · n · k, and all keys of an
// attention, masked or not; its backward is 5 products, its forward 2. A softmax is a nominal 5 per element
// (workload::Softmax). Otherwise `known`, the profiler's own count; 0 if unknown.
double OperatorFlops(std::string_view name, const std::vector<std::vector<int64_t>>& shapes, double known);

// Bytes of the tensor arguments, each counted once. `types` are the profiler's names: "float", "c10::BFloat16"; "" and
// unknown names are not tensors.
double OperatorInputBytes(const std::vector<std::vector<int64_t>>& shapes, const std::vector<std::string>& types);

}  // namespace roofbench::observe
