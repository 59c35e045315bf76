// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

// A tensor with its state, and the same in float64.
struct Tensor {
  explicit Tensor(int64_t n, uint32_t seed = 1)
      : parameter(Normal<float>(n, 0, 1, seed)),
        gradient(Normal<float>(n, 0, 0.1, seed + 1)),
        mean(Size(n)),
        square(Size(n)),
        exact_parameter(parameter.begin(), parameter.end()),
        exact_mean(mean.begin(), mean.end()),
        exact_square(square.begin(), square.end()) {}

  AdamWTensor View() {
    return {.parameter = parameter.data(),
            .gradient = gradient.data(),
            .mean = mean.data(),
            .square = square.data(),
            .n = static_cast<int64_t>(parameter.size())};
  }

  void StepExactly(const AdamW& work) {
    const double t = static_cast<double>(work.step);
    for (std::size_t i = 0; i < parameter.size(); ++i) {
      const double g = gradient[i];
      exact_parameter[i] *= 1 - work.lr * work.weight_decay;
      exact_mean[i] = work.beta1 * exact_mean[i] + (1 - work.beta1) * g;
      exact_square[i] = work.beta2 * exact_square[i] + (1 - work.beta2) * g * g;
      const double m = exact_mean[i] / (1 - std::pow(work.beta1, t));
      const double v = exact_square[i] / (1 - std::pow(work.beta2, t));
      exact_parameter[i] -= work.lr * m / (std::sqrt(v) + work.eps);
    }
  }

  void ExpectExact() const {
    for (std::size_t i = 0; i < parameter.size(); ++i) {
      const std::string where = std::to_string(i) + " of " + std::to_string(parameter.size());
      ExpectClose(mean[i], exact_mean[i], 1e-6, 1e-3, "mean " + where);
      ExpectClose(square[i], exact_square[i], 2e-6, 1e-6, "square " + where);
      ExpectClose(parameter[i], exact_parameter[i], 1e-6, 0.1, "parameter " + where);
    }
  }

  std::vector<float> parameter;
  std::vector<float> gradient;
  std::vector<float> mean;
  std::vector<float> square;
  std::vector<double> exact_parameter;
  std::vector<double> exact_mean;
  std::vector<double> exact_square;
};

TEST(AdamW, FollowsFloat64OverStepsAndTensors) {
  OnEveryIsa([] {
    std::vector<Tensor> tensors;
    for (const int64_t n : {1, 0, 5, 16, 1023, 4097, 2048}) tensors.emplace_back(n, static_cast<uint32_t>(n + 3));
    std::vector<AdamWTensor> views;
    for (Tensor& tensor : tensors) views.push_back(tensor.View());
    AdamW work{.tensors = views, .lr = 0.01, .weight_decay = 0.1};
    for (work.step = 1; work.step <= 5; ++work.step) {
      kernels::Run(work, ThreadPool(3));
      for (Tensor& tensor : tensors) tensor.StepExactly(work);
    }
    for (const Tensor& tensor : tensors) tensor.ExpectExact();
  });
}

TEST(AdamW, ANanOrInfiniteGradientSpoilsItsElementAlone) {
  OnEveryIsa([] {
    Tensor tensor(40);
    tensor.gradient[7] = std::numeric_limits<float>::quiet_NaN();
    tensor.gradient[9] = std::numeric_limits<float>::infinity();
    const std::vector<AdamWTensor> views = {tensor.View()};
    const AdamW work{.tensors = views};
    kernels::Run(work, SerialFor());
    tensor.StepExactly(work);
    tensor.ExpectExact();
  });
}

}  // namespace
}  // namespace roofbench::kernels
