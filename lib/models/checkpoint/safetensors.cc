// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "lib/base/json.h"

namespace roofbench::models {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;  // upstream's limit
constexpr int kHeaderDepth = 3;                   // tensors, their fields, the lists in those

struct TypeRow {
  std::string_view name;
  at::ScalarType type;
};

constexpr TypeRow kTypes[] = {
    {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"I64", at::kLong},
    {"I32", at::kInt},    {"I16", at::kShort}, {"I8", at::kChar},  {"U8", at::kByte},       {"BOOL", at::kBool},
};

std::optional<at::ScalarType> ParseType(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& r) { return r.name == name; });
  return found == std::end(kTypes) ? std::nullopt : std::optional(found->type);
}

// A list of whole numbers that are not negative; nullopt for anything else.
std::optional<std::vector<int64_t>> Sizes(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const auto& item : *found) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > (uint64_t{1} << 53)) return std::nullopt;
    sizes.push_back(static_cast<int64_t>(item.get<uint64_t>()));
  }
  return sizes;
}

// Elements times their size; nullopt beyond 2^53 bytes.
std::optional<int64_t> ByteSize(const std::vector<int64_t>& shape, at::ScalarType type) {
  constexpr int64_t kMost = int64_t{1} << 53;
  auto bytes = static_cast<int64_t>(c10::elementSize(type));
  for (const int64_t size : shape) {
    if (size != 0 && bytes > kMost / size) return std::nullopt;
    bytes *= size;
  }
  return bytes;
}

// A range of bytes in the file.
struct Data {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
};

absl::StatusOr<Safetensors::Entry> ParseEntry(const nlohmann::json& fields, const Data& data) {
  if (!fields.is_object()) return absl::InvalidArgumentError("is not described by an object");
  const auto dtype = fields.find("dtype");
  if (dtype == fields.end() || !dtype->is_string()) return absl::InvalidArgumentError("has no dtype");
  const std::optional<at::ScalarType> type = ParseType(dtype->get<std::string>());
  const auto shape = Sizes(fields, "shape");
  if (!shape) return absl::InvalidArgumentError("needs a shape of whole numbers");
  const auto offsets = Sizes(fields, "data_offsets");
  if (!offsets || offsets->size() != 2) return absl::InvalidArgumentError("needs two data_offsets");
  const auto [begin, end] = std::pair((*offsets)[0], (*offsets)[1]);
  if (begin > end || end > static_cast<int64_t>(data.size())) {
    return absl::InvalidArgumentError(absl::StrCat("lies at bytes ", begin, " to ", end, " of the data, which has ",
                                                   data.size(), ": the file is cut off, or its header is wrong"));
  }
  const std::optional<int64_t> bytes = type ? ByteSize(*shape, *type) : end - begin;
  if (!bytes || *bytes != end - begin) {
    return absl::InvalidArgumentError(absl::StrCat("has ", end - begin, " bytes, which do not fit its shape"));
  }
  return Safetensors::Entry{.type = type.value_or(at::ScalarType::Undefined),
                            .dtype = dtype->get<std::string>(),
                            .shape = *shape,
                            .begin = data.begin + static_cast<uint64_t>(begin),
                            .end = data.begin + static_cast<uint64_t>(end)};
}

// Whether the entries cover all bytes without gaps or overlaps.
absl::Status CheckCoverage(const std::map<std::string, Safetensors::Entry>& entries, const Data& data) {
  std::vector<Data> pieces;
  pieces.reserve(entries.size());
  for (const auto& [name, entry] : entries) pieces.push_back({entry.begin, entry.end});
  std::sort(pieces.begin(), pieces.end(),
            [](const Data& a, const Data& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t next = data.begin;
  for (const Data& piece : pieces) {
    if (piece.begin < next) return absl::InvalidArgumentError("tensors overlap");
    if (piece.begin > next) return absl::InvalidArgumentError("bytes between tensors belong to no tensor");
    next = piece.end;
  }
  if (next != data.end) return absl::InvalidArgumentError("bytes after the last tensor belong to no tensor");
  return absl::OkStatus();
}

}  // namespace

std::string ShapeText(const std::vector<int64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

absl::StatusOr<Safetensors> Safetensors::Open(const std::string& path) {
  absl::StatusOr<RegularFile> file = RegularFile::Open(path);
  if (!file.ok()) return file.status();
  const auto refuse = [&](absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat(path, ": ", why)); };
  if (file->size() < kLengthBytes) return refuse("too short for a safetensors file");
  uint64_t length = 0;  // little-endian, as every machine that LibTorch runs on
  if (absl::Status status = file->Read(0, std::as_writable_bytes(std::span(&length, 1))); !status.ok()) return status;
  if (length > kLongestHeader || length > file->size() - kLengthBytes) {
    return refuse(absl::StrCat("its header claims ", length, " bytes of a file of ", file->size()));
  }
  std::string header(length, '\0');
  if (absl::Status status = file->Read(kLengthBytes, std::as_writable_bytes(std::span(header))); !status.ok()) {
    return status;
  }
  const absl::StatusOr<nlohmann::json> parsed = ParseJsonObject(header, kHeaderDepth);
  if (!parsed.ok()) return refuse(absl::StrCat("its header ", parsed.status().message()));
  const Data data = {kLengthBytes + length, file->size()};

  Safetensors opened(*std::move(file));
  for (const auto& [name, fields] : parsed->items()) {
    if (name == "__metadata__") continue;
    absl::StatusOr<Entry> entry = ParseEntry(fields, data);
    if (!entry.ok()) return refuse(absl::StrCat("the tensor ", name, " ", entry.status().message()));
    opened.entries_.emplace(name, *std::move(entry));
  }
  if (absl::Status status = CheckCoverage(opened.entries_, data); !status.ok()) return refuse(status.message());
  return opened;
}

absl::StatusOr<at::Tensor> Safetensors::ReadRows(const Entry& entry, int64_t first, int64_t count) const {
  std::vector<int64_t> shape = entry.shape;
  if (!shape.empty()) shape.front() = count;
  at::Tensor rows = at::empty(shape, entry.type);
  const std::span to(static_cast<std::byte*>(rows.data_ptr()), rows.nbytes());
  const uint64_t begin = entry.begin + static_cast<uint64_t>(first) * entry.RowBytes();
  if (absl::Status status = file_.Read(begin, to); !status.ok()) return status;
  return rows;
}

}  // namespace roofbench::models
