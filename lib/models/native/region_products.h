// SPDX-License-Identifier: Apache-2.0
// The products of a native decoder inside a parallel region: each by the kernel of its matrix's format, its rows
// divided among the threads.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "lib/kernels/operators/products/llm_int8.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/models/decoding/llm_int8.h"
#include "lib/models/decoding/stored_matrix.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {

// A range of what all threads of a region do at the same time: one speaks for all.
class PartRange {
 public:
  template <typename... Name>
  explicit PartRange(const kernels::Worker& worker, Name... name) {
    if (worker.index() == 0) range_.emplace(name...);
  }

 private:
  std::optional<observe::Range> range_;
};

// y = matrix · x: x [m, columns] and y [m, rows] of one expert's matrix.
template <typename T>
struct RegionProduct {
  const StoredMatrix& matrix;
  int64_t expert = 0;
  const T* x = nullptr;
  int64_t m = 1;
  float* y = nullptr;
};

// T: float or Bf16, what vectors are rounded to before a product. Every thread of a region calls the same functions
// with the same arguments, but for what belongs to the thread. It allocates when it is made and never again.
template <typename T>
class RegionProducts {
 public:
  struct Sizes {
    int64_t products = 0;  // that a region divides
    int64_t vectors = 0;   // of a product: its m
    int64_t widest = 0;    // elements of the longest vector
  };
  RegionProducts(const Sizes& sizes, double outlier_threshold, int threads);

  // As Decoder's.
  void ObserveStages(LlmInt8Marker marker) { marker_ = std::move(marker); }

  // Before each region.
  void Restart();
  // Of the last region.
  const LlmInt8Tally& tally() const { return tally_; }

  // The quantised copy of x that a thread keeps until its next call, where the matrix's format wants one.
  const kernels::LlmInt8Activations& Quantise(const kernels::Worker& worker, const RegionProduct<T>& work);

  // y[:, rows], on the calling thread. `quantised`: of x.
  void Multiply(const kernels::Worker& worker, const RegionProduct<T>& work,
                const kernels::LlmInt8Activations& quantised, kernels::Range rows);

  // Calls body(Range) for what falls to this thread of a matrix's rows, or of `rows` pieces of as many rows each.
  // `evenly`: a thread has the same of them every time.
  void Divide(const kernels::Worker& worker, const StoredMatrix& matrix, int64_t rows,
              kernels::FunctionRef<void(kernels::Range)> body, bool evenly = false);

  // This thread's rows of a product, and then(Range) for each piece of them.
  template <typename Then>
  void Run(const kernels::Worker& worker, const RegionProduct<T>& work, Then then, bool evenly = false) {
    const kernels::LlmInt8Activations& quantised = Quantise(worker, work);
    const auto body = [&](kernels::Range rows) {
      Multiply(worker, work, quantised, rows);
      then(rows);
    };
    Divide(worker, work.matrix, work.matrix.rows, body, evenly);
  }

 private:
  // What a thread has for itself.
  struct Scratch {
    kernels::LlmInt8Activations quantised;
    int64_t product = 0;  // of the region: how many have been divided
  };

  // The threads do the same at the same time, so that one speaks for all.
  void Mark(const kernels::Worker& worker, LlmInt8Stage stage) const {
    if (marker_ && worker.index() == 0) marker_(stage);
  }

  const double outlier_threshold_;
  LlmInt8Marker marker_;
  LlmInt8Tally tally_;
  kernels::RowShares shares_;
  std::vector<Scratch> scratch_;
};

// On which multiples of rows a product may be split.
int64_t RowGrain(const StoredMatrix& matrix);

extern template class RegionProducts<float>;
extern template class RegionProducts<kernels::Bf16>;

}  // namespace roofbench::models
