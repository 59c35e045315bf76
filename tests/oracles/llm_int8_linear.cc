// SPDX-License-Identifier: Apache-2.0
// Our LLM.int8() linear layer, for a test in Python to compare with bitsandbytes:
//   llm_int8_linear M N K THRESHOLD IN OUT
// IN holds fp32 x [M, K] and w [N, K]; OUT gets fp32 y [M, N], by LibTorch's operations on x in fp16, then the same by
// our kernel on x in bf16, then the quantized weight [N, K] and the rows' maxima [N], all as fp32.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "lib/kernels/operators/products/llm_int8.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/models/decoding/llm_int8.h"

namespace {

void Read(std::ifstream& in, const at::Tensor& to) {
  in.read(static_cast<char*>(to.data_ptr()), static_cast<std::streamsize>(to.nbytes()));
}

void Write(std::ofstream& out, const at::Tensor& tensor) {
  const at::Tensor plain = tensor.to(at::kFloat).contiguous();
  out.write(static_cast<const char*>(plain.data_ptr()), static_cast<std::streamsize>(plain.nbytes()));
}

}  // namespace

int main(int argc, char** argv) {
  namespace kernels = roofbench::kernels;
  if (argc != 7) {
    std::fprintf(stderr, "llm_int8_linear M N K THRESHOLD IN OUT\n");
    return EXIT_FAILURE;
  }
  const int64_t m = std::atoll(argv[1]);
  const int64_t n = std::atoll(argv[2]);
  const int64_t k = std::atoll(argv[3]);
  const double threshold = std::atof(argv[4]);
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::empty({m, k}, at::kFloat);
  const at::Tensor w = at::empty({n, k}, at::kFloat);
  std::ifstream in(argv[5], std::ios::binary);
  Read(in, x);
  Read(in, w);
  const roofbench::models::LlmInt8Matrix weight = roofbench::models::QuantizeLlmInt8(w.to(at::kHalf));
  std::ofstream out(argv[6], std::ios::binary);
  Write(out, roofbench::models::LlmInt8Linear(x.to(at::kHalf), weight, threshold));

  const at::Tensor rounded = x.to(at::kBFloat16);
  const at::Tensor y = at::empty({m, n}, at::kFloat);
  const auto* const values = reinterpret_cast<const kernels::Bf16*>(rounded.const_data_ptr<at::BFloat16>());
  const kernels::ThreadPool pool(2);
  kernels::Int8Activations activations;
  activations.Select(values, m, k, static_cast<float>(threshold), pool);
  activations.Quantize(values, pool);
  const kernels::LlmInt8Weight stored{weight.weight.const_data_ptr<int8_t>(), weight.row_max.const_data_ptr<float>(), n,
                                      k};
  Run(kernels::LlmInt8Product<float>{.weight = stored, .activations = &activations, .y = y.data_ptr<float>()}, pool);
  Write(out, y);
  Write(out, weight.weight);
  Write(out, weight.row_max);
  return in && out ? EXIT_SUCCESS : EXIT_FAILURE;
}
