// SPDX-License-Identifier: Apache-2.0
// A compiled operation as a part of a case, to which it adds its compile time.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/suite/inputs.h"
#include "lib/suite/steps/compiled.h"

namespace roofbench {

// As Compile, for the device and with the options of the case that is being built.
inline absl::StatusOr<CompiledOperation> CompilePart(const std::string& operation,
                                                     const std::vector<at::Tensor>& inputs, Inputs& in) {
  absl::StatusOr<CompiledOperation> part = Compile(operation, inputs, in.device(), in.compile_options());
  if (part.ok()) in.AddCompileSeconds(part->compile_seconds);
  return part;
}

}  // namespace roofbench
