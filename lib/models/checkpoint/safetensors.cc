// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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

absl::StatusOr<Safetensors::Entry> ParseEntry(const nlohmann::json& fields, std::span<const std::byte> data) {
  if (!fields.is_object()) return absl::InvalidArgumentError("is described by no object");
  const auto dtype = fields.find("dtype");
  if (dtype == fields.end() || !dtype->is_string()) return absl::InvalidArgumentError("has no dtype");
  const std::optional<at::ScalarType> type = ParseType(dtype->get<std::string>());
  if (!type) {
    return absl::InvalidArgumentError(absl::StrCat("has the dtype '", dtype->get<std::string>(), "', which we lack"));
  }
  const auto shape = Sizes(fields, "shape");
  if (!shape) return absl::InvalidArgumentError("has no shape of whole numbers");
  const auto offsets = Sizes(fields, "data_offsets");
  if (!offsets || offsets->size() != 2) return absl::InvalidArgumentError("has no two data_offsets");
  const auto [begin, end] = std::pair((*offsets)[0], (*offsets)[1]);
  if (begin > end || end > static_cast<int64_t>(data.size())) {
    return absl::InvalidArgumentError(absl::StrCat("lies at bytes ", begin, " to ", end, " of the data, which has ",
                                                   data.size(), ": the file is cut off, or its header is wrong"));
  }
  const std::optional<int64_t> bytes = ByteSize(*shape, *type);
  if (!bytes || *bytes != end - begin) {
    return absl::InvalidArgumentError(absl::StrCat("has ", end - begin, " bytes, which do not fit its shape"));
  }
  return Safetensors::Entry{
      .type = *type,
      .shape = *shape,
      .data = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))};
}

// Whether the entries lie side by side from the first byte to the last.
absl::Status CheckCoverage(const std::map<std::string, Safetensors::Entry>& entries, std::span<const std::byte> data) {
  std::vector<std::span<const std::byte>> pieces;
  for (const auto& [name, entry] : entries) pieces.push_back(entry.data);
  std::sort(pieces.begin(), pieces.end(),
            [](const auto& a, const auto& b) { return std::pair(a.data(), a.size()) < std::pair(b.data(), b.size()); });
  const std::byte* next = data.data();
  for (const auto& piece : pieces) {
    if (piece.data() < next) return absl::InvalidArgumentError("tensors overlap");
    if (piece.data() > next) return absl::InvalidArgumentError("bytes between tensors belong to none");
    next += piece.size();
  }
  if (next != data.data() + data.size()) return absl::InvalidArgumentError("bytes behind the tensors belong to none");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Safetensors> Safetensors::Open(const std::string& path) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const auto refuse = [&](absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat(path, ": ", why)); };
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() < kLengthBytes) return refuse("too short for a safetensors file");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);  // little-endian, as every machine that LibTorch runs on
  if (length > kLongestHeader || length > bytes.size() - kLengthBytes) {
    return refuse(absl::StrCat("its header claims ", length, " bytes of a file of ", bytes.size()));
  }
  const auto header_bytes = static_cast<std::size_t>(length);
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, header_bytes);
  const absl::StatusOr<nlohmann::json> parsed = ParseJsonObject(header, kHeaderDepth);
  if (!parsed.ok()) return refuse(absl::StrCat("its header ", parsed.status().message()));
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + header_bytes);

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

at::Tensor Safetensors::View(const Entry& entry) {
  const auto address = reinterpret_cast<std::uintptr_t>(entry.data.data());
  if (address % c10::elementSize(entry.type) != 0) {
    at::Tensor copy = at::empty(entry.shape, entry.type);
    std::memcpy(copy.data_ptr(), entry.data.data(), entry.data.size());
    return copy;
  }
  return at::from_blob(const_cast<std::byte*>(entry.data.data()), entry.shape, entry.type);
}

}  // namespace roofbench::models
