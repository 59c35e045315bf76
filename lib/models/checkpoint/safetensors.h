// SPDX-License-Identifier: Apache-2.0
// Tensors in files of the safetensors format: https://huggingface.co/docs/safetensors, "Format".
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/mapped_file.h"

namespace roofbench::models {

// One file. What its header says is proven before anything is read by it: the header fits the file, every tensor has a
// known type, its shape fits its bytes, and the tensors fill the file without holes and overlaps.
class Safetensors {
 public:
  struct Entry {
    at::ScalarType type = at::kFloat;
    std::vector<int64_t> shape;
    std::span<const std::byte> data;  // inside the file
  };

  // InvalidArgument with the file, the tensor and the reason.
  static absl::StatusOr<Safetensors> Open(const std::string& path);

  const std::map<std::string, Entry>& entries() const { return entries_; }

  // A read-only view of an entry's data, valid as long as the file is; a copy where the file has it off its alignment.
  static at::Tensor View(const Entry& entry);

 private:
  explicit Safetensors(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace roofbench::models
