// SPDX-License-Identifier: Apache-2.0
// Operations compiled by LibTorch's Inductor into packages that run without Python, on a processor or a GPU.
//
// A Python with the same torch and a C++ compiler make a package at its first use (10 to 60 s); it is cached in
// $XDG_CACHE_HOME/roofbench/compiled (by default ~/.cache/roofbench/compiled) under a hash of everything that decides
// its content. For a GPU this includes its name and compute capability, and Python must see the GPU and have triton. A
// package is a program: folders and files that another user owns or can write are refused.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/device/device.h"
#include "lib/suite/inputs.h"

namespace roofbench {

// Listed among the kernels that no GPU has run (lib/device/unverified.h).
inline constexpr char kInductorPackage[] = "InductorPackage";

struct CompiledOperation {
  // Computes new results from inputs of the compiled shapes and types, on their device: on a GPU it is enqueued on
  // LibTorch's current stream, without waiting.
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)> run;
  CompileTimes times = {};

  // The first result.
  at::Tensor operator()(const std::vector<at::Tensor>& inputs) const { return run(inputs).front(); }
};

// `operation` is one of those of tools/compile_package.py, compiled for inputs like these, the device and its threads.
// Unimplemented explains why there is no package: no Python, no compiler, no triton, another GPU, no folder for it, or
// the exporter's last message. The Python is $ROOFBENCH_PYTHON, else that of LibTorch's environment, else python3.
absl::StatusOr<CompiledOperation> Compile(const std::string& operation, const std::vector<at::Tensor>& inputs,
                                          const Device& device, const CompileOptions& options = {});

// The same for the device and with the options of the case that is being built, to which it adds its times.
absl::StatusOr<CompiledOperation> CompilePart(const std::string& operation, const std::vector<at::Tensor>& inputs,
                                              Inputs& in);

}  // namespace roofbench
