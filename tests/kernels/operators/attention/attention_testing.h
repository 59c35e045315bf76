// SPDX-License-Identifier: Apache-2.0
// Attention and its gradients in double precision, for the tests of all kernels of attention.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "lib/kernels/operators/attention/attention.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {

using Rows = std::vector<std::vector<double>>;  // [batch · heads · tokens][head_dim]

inline double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}
inline void Add(std::vector<double>& to, double factor, const std::vector<double>& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
}

// The scale and the cap of scores; 0: as Attention's.
struct Scores {
  float scale = 0;
  float cap = 0;
};

struct Exact {
  // Weights of query row `i`: one for each key that it sees.
  std::vector<double> Weights(std::size_t i) const {
    const auto query = static_cast<int64_t>(i) % shape.queries;
    const int64_t seen = shape.causal ? std::max<int64_t>(0, shape.keys - shape.queries + query + 1) : shape.keys;
    std::vector<double> weights;
    for (std::size_t j = FirstKey(i); weights.size() < Size(seen); ++j) {
      const double score = Dot(q[i], k[j]) * Scale();
      weights.push_back(scores.cap > 0 ? scores.cap * std::tanh(score / scores.cap) : score);
    }
    const double largest = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    for (double& weight : weights) weight /= sum;
    return weights;
  }

  // Zeros where no key is seen.
  std::vector<double> Result(std::size_t i, const std::vector<double>& weights) const {
    std::vector<double> y(Size(shape.head_dim));
    for (std::size_t j = 0; j < weights.size(); ++j) Add(y, weights[j], v[FirstKey(i) + j]);
    return y;
  }
  Rows Results() const {
    Rows y;
    for (std::size_t i = 0; i < q.size(); ++i) y.push_back(Result(i, Weights(i)));
    return y;
  }

  struct Gradients {
    Rows dq, dk, dv;
  };
  // As the chain rule has them, of scores without a cap.
  Gradients GradientsFrom(const Rows& dy) const {
    const auto zeros = [&](const Rows& like) { return Rows(like.size(), std::vector<double>(Size(shape.head_dim))); };
    Gradients of{zeros(q), zeros(k), zeros(v)};
    for (std::size_t i = 0; i < q.size(); ++i) {
      const std::vector<double> weights = Weights(i);
      const double correction = Dot(dy[i], Result(i, weights));
      for (std::size_t j = 0; j < weights.size(); ++j) {
        const std::size_t key = FirstKey(i) + j;
        const double ds = weights[j] * (Dot(dy[i], v[key]) - correction) * Scale();
        Add(of.dv[key], weights[j], dy[i]);
        Add(of.dk[key], ds, q[i]);
        Add(of.dq[i], ds, k[key]);
      }
    }
    return of;
  }

  // Σ dy · y, whose gradients those are.
  double Loss(const Rows& dy) const {
    const Rows y = Results();
    double loss = 0;
    for (std::size_t i = 0; i < y.size(); ++i) loss += Dot(dy[i], y[i]);
    return loss;
  }

  double Scale() const { return scores.scale > 0 ? scores.scale : 1 / std::sqrt(static_cast<double>(shape.head_dim)); }
  // The row of the first key that a query row sees.
  std::size_t FirstKey(std::size_t i) const { return i / Size(shape.queries * shape.group) * Size(shape.keys); }

  AttentionShape shape;
  Rows q, k, v;
  Scores scores = {};
};

}  // namespace roofbench::kernels
