// SPDX-License-Identifier: Apache-2.0
// Operations compiled by LibTorch's Inductor into packages that run without Python, on a processor or a GPU.
//
// A Python with the same torch and a C++ compiler make a package at its first use (10 to 60 s); it is kept in
// $XDG_CACHE_HOME/roofbench/compiled (else ~/.cache/roofbench/compiled) under a hash of all that decides its content.
// For a GPU that is also its name and compute capability, and the Python must see it and have triton. A package is a
// program: folders and files that another user owns or can write are refused.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/device/device.h"
#include "lib/suite/steps/compile_options.h"

namespace roofbench {

// Listed as what no GPU has run (lib/device/unverified.h).
inline constexpr char kInductorPackage[] = "InductorPackage";

struct CompiledOperation {
  // Computes new results from inputs of the shapes and types that it was compiled for, on their device: on a GPU it is
  // enqueued on the stream that LibTorch works on, and nothing waits.
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)> run;
  // That compiling it took, now or when its package was made; 0: not known.
  double compile_seconds = 0;

  // The first result.
  at::Tensor operator()(const std::vector<at::Tensor>& inputs) const { return run(inputs).front(); }
};

// `operation` is one of those of tools/compile_package.py, compiled for inputs like these, the device and its threads.
// Unimplemented says why there is no package: no Python, no compiler, no triton, another GPU, no folder to keep it in,
// or what the exporter said last. The Python is $ROOFBENCH_PYTHON, else that of the environment that LibTorch lies in,
// else python3.
absl::StatusOr<CompiledOperation> Compile(const std::string& operation, const std::vector<at::Tensor>& inputs,
                                          const Device& device, const CompileOptions& options = {});

}  // namespace roofbench
