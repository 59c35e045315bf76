// SPDX-License-Identifier: Apache-2.0
// What LibTorch's operators compute, from the shapes of their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace roofbench::observe {

// What an operator or kernel is to those who ask where the time goes.
enum class WorkKind { kProduct, kAttention, kSoftmax, kOther };
std::string_view Name(WorkKind kind);  // "product", "attention", "softmax", "other"

// By the name of an operator ("aten::mm"), a kernel of ours ("roofbench::rms_norm") or one of a GPU ("ampere_sgemm_…").
// kAttention is the whole of an attention in one kernel.
WorkKind KindOfWork(std::string_view name);

// FLOPs of one call. Products and fused attention are counted as torch.utils.flop_count counts them: 2 · m · n · k, and
// all keys of an attention, masked or not; its backward is 5 products to the forward's 2. A softmax is a nominal
// 5 an element (workload::Softmax). Else what the profiler itself knows, `known`; 0: unknown.
double OperatorFlops(std::string_view name, const std::vector<std::vector<int64_t>>& shapes, double known);

// Bytes of the tensor arguments, each once. `types` are the profiler's names: "float", "c10::BFloat16"; "" and others
// are no tensors.
double OperatorInputBytes(const std::vector<std::vector<int64_t>>& shapes, const std::vector<std::string>& types);

}  // namespace roofbench::observe
