// SPDX-License-Identifier: Apache-2.0
// Makes a case's tensors: seeded, never zeros, and cloned when the case is built again for a cold cache.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lib/aten/storage_type.h"
#include "lib/suite/steps/compile_options.h"
#include "lib/workload/dtype.h"

namespace roofbench {

class Device;

class Inputs {
 public:
  // The data depends on `seed`, `name` (of the case) and the kind of the device alone. It is made on the device: a
  // processor would take minutes to fill the memory of a GPU.
  Inputs(Device& device, uint64_t seed, const std::string& name, const CompileOptions& compile = {});

  Device& device() const { return device_; }
  const CompileOptions& compile_options() const { return compile_; }
  // That compiling a part of the copy took.
  void AddCompileSeconds(double seconds) { compile_seconds_ += seconds; }
  double compile_seconds() const { return compile_seconds_; }

  // Normal data with the given standard deviation. int8: normal with deviation 32 · `scale`, rounded and clamped to
  // ±127.
  at::Tensor Randn(at::IntArrayRef shape, workload::Dtype dtype = workload::Dtype::kFp32, double scale = 1);
  // Memory for a result: allocated and touched, so that no page fault falls into a step.
  at::Tensor Empty(at::IntArrayRef shape, at::ScalarType type);
  at::Tensor Empty(at::IntArrayRef shape, workload::Dtype dtype) { return Empty(shape, StorageType(dtype)); }
  // Uniform whole numbers in [low, high), as int64.
  at::Tensor Integers(int64_t low, int64_t high, at::IntArrayRef shape);
  // A tensor that the case made itself (packed weights, say): remembered, and cloned for the next copy.
  at::Tensor Keep(at::Tensor tensor);
  // The same for one that takes time to make: `make` is called for the first copy alone.
  at::Tensor Keep(const std::function<at::Tensor(at::Generator&)>& make);
  // At most `most` distinct sorted row numbers below `rows`: all of them if there are no more.
  at::Tensor SampleRows(int64_t rows, int64_t most = 64);

  // From now on every call answers with a clone of what the same call (by order) answered the first time.
  void StartClone();
  // Bytes of one copy: everything handed out since the last StartClone.
  double bytes() const { return bytes_; }

 private:
  template <typename Make>
  at::Tensor Next(Make make);
  at::TensorOptions OnDevice(at::ScalarType type) const;

  Device& device_;
  const CompileOptions compile_;
  double compile_seconds_ = 0;
  at::Generator generator_;         // on the host, for what a case makes itself
  at::Generator device_generator_;  // the same one on a processor
  std::vector<at::Tensor> first_;   // what the first build was given
  std::size_t next_ = 0;
  bool cloning_ = false;
  double bytes_ = 0;
};

}  // namespace roofbench
