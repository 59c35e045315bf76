// SPDX-License-Identifier: Apache-2.0
// Tensors in files of the safetensors format: https://huggingface.co/docs/safetensors, "Format".
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/files.h"

namespace roofbench::models {

// "[2, 3]"
std::string ShapeText(const std::vector<int64_t>& shape);

// One file. Open validates the header before anything else is read: the header fits in the file, the shape of every
// tensor of a known type matches its bytes, and the tensors fill the file without gaps or overlaps.
class Safetensors {
 public:
  struct Entry {
    at::ScalarType type = at::kFloat;  // Undefined: none that is read here, as of fp8 without its scales
    std::string dtype = {};            // as the file calls it
    std::vector<int64_t> shape;
    uint64_t begin = 0;  // bytes of the file
    uint64_t end = 0;

    int64_t rows() const { return shape.empty() ? 1 : shape.front(); }
    uint64_t RowBytes() const { return rows() == 0 ? 0 : (end - begin) / static_cast<uint64_t>(rows()); }
  };

  // InvalidArgument with the file, the tensor and the reason.
  static absl::StatusOr<Safetensors> Open(const std::string& path);

  const std::map<std::string, Entry>& entries() const { return entries_; }

  // A copy of `count` rows of an entry, from `first` on. DataLoss if the file has become shorter since it was opened.
  absl::StatusOr<at::Tensor> ReadRows(const Entry& entry, int64_t first, int64_t count) const;

 private:
  explicit Safetensors(RegularFile file) : file_(std::move(file)) {}
  RegularFile file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace roofbench::models
