// SPDX-License-Identifier: Apache-2.0
// Makes a case's tensors: seeded, never all zeros, and cloned when the case is built again for a cold cache.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/aten/storage_type.h"
#include "lib/ranks/group.h"
#include "lib/workload/dtype.h"

namespace roofbench {

class Device;

// Compiler options of impl:compiled.
struct CompileOptions {
  // Inductor tries further tilings of its GPU kernels; processor kernels stay the same.
  bool coordinate_descent_tuning = false;
};

// The packages of a copy.
struct CompileTimes {
  int packages = 0;
  int made = 0;             // of them, now
  double made_seconds = 0;  // in which they were made, now or earlier; 0: not known
  double load_seconds = 0;
};

class Inputs {
 public:
  // The data depends only on `seed`, `name` (of the case) and the kind of device. It is generated on the device,
  // because a processor would take minutes to fill the memory of a GPU.
  Inputs(Device& device, uint64_t seed, const std::string& name, const CompileOptions& compile = {});

  Device& device() const { return device_; }
  const CompileOptions& compile_options() const { return compile_; }
  // The ranks that build this case together, each with the same data; one rank unless SetGroup was called. The group
  // lives as long as the case.
  ranks::Group& group() const { return *group_; }
  const std::shared_ptr<ranks::Group>& shared_group() const { return group_; }
  void SetGroup(std::shared_ptr<ranks::Group> group) { group_ = std::move(group); }
  // Adds packages of a part of the copy.
  void AddCompiled(const CompileTimes& part) {
    compiled_.packages += part.packages;
    compiled_.made += part.made;
    compiled_.made_seconds += part.made_seconds;
    compiled_.load_seconds += part.load_seconds;
  }
  const CompileTimes& compiled() const { return compiled_; }

  // Normal data with the given standard deviation. int8: normal with deviation 32 · `scale`, rounded and clamped to
  // ±127.
  at::Tensor Randn(at::IntArrayRef shape, workload::Dtype dtype = workload::Dtype::kFp32, double scale = 1);
  // Memory for a result: allocated and touched, so that steps cause no page faults.
  at::Tensor Empty(at::IntArrayRef shape, at::ScalarType type);
  at::Tensor Empty(at::IntArrayRef shape, workload::Dtype dtype) { return Empty(shape, StorageType(dtype)); }
  // Uniform integers in [low, high), as int64.
  at::Tensor Integers(int64_t low, int64_t high, at::IntArrayRef shape);
  // Registers a tensor that the case made itself (packed weights, for example); the next copy gets a clone.
  at::Tensor Keep(at::Tensor tensor);
  // The same for a tensor that takes time to make: `make` is called only for the first copy.
  at::Tensor Keep(const std::function<at::Tensor(at::Generator&)>& make);
  // At most `most` distinct sorted row numbers below `rows`: all of them if there are no more.
  at::Tensor SampleRows(int64_t rows, int64_t most = 64);

  // From now on, the n-th call returns a clone of the result of the first build's n-th call.
  void StartClone();
  // What a step of the first build reads: its random data, and what was made of that, without memory for results.
  const std::vector<at::Tensor>& operands() const { return operands_; }
  // The same of the last copy.
  const std::vector<at::Tensor>& OfThisCopy() const { return own_; }
  // Bytes of one copy: all tensors returned since the last StartClone.
  double bytes() const { return bytes_; }

 private:
  template <typename Make>
  at::Tensor Next(Make make, bool is_operand = true);
  at::TensorOptions OnDevice(at::ScalarType type) const;

  Device& device_;
  const CompileOptions compile_;
  std::shared_ptr<ranks::Group> group_;
  CompileTimes compiled_;
  at::Generator generator_;           // on the host, for tensors that a case makes itself
  at::Generator device_generator_;    // the same generator on a processor
  std::vector<at::Tensor> first_;     // tensors of the first build
  std::vector<at::Tensor> operands_;  // those that hold values from the start
  std::vector<at::Tensor> own_;       // the same of the last copy
  std::size_t next_ = 0;
  bool cloning_ = false;
  double bytes_ = 0;
};

}  // namespace roofbench
