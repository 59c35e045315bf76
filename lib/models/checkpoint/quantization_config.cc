// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/quantization_config.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/base/json.h"
#include "lib/models/checkpoint/architecture.h"

namespace roofbench::models {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;
using absl::UnimplementedError;
using nlohmann::json;
using std::string_view;

constexpr int64_t kLargestGroup = 1 << 22;

// What is read, and what says how the codes were found or how other programs run them.
constexpr string_view kGptqKeys[] = {"quant_method",
                                     "bits",
                                     "group_size",
                                     "desc_act",
                                     "sym",
                                     "checkpoint_format",
                                     "pack_dtype",
                                     "backend",
                                     "batch_size",
                                     "block_name_to_quantize",
                                     "cache_block_outputs",
                                     "damp_percent",
                                     "dataset",
                                     "disable_exllama",
                                     "exllama_config",
                                     "max_input_length",
                                     "meta",
                                     "model_file_base_name",
                                     "model_name_or_path",
                                     "model_seqlen",
                                     "module_name_preceding_first_block",
                                     "modules_in_block_to_quantize",
                                     "pad_token_id",
                                     "static_groups",
                                     "tokenizer",
                                     "true_sequential",
                                     "use_cuda_fp16",
                                     "use_exllama"};
constexpr string_view kAwqKeys[] = {"quant_method",
                                    "bits",
                                    "w_bit",
                                    "group_size",
                                    "q_group_size",
                                    "zero_point",
                                    "version",
                                    "backend",
                                    "do_fuse",
                                    "exllama_config",
                                    "fuse_max_seq_len",
                                    "modules_to_fuse",
                                    "modules_to_not_convert"};

std::string TextOf(const json& object, const char* key, const char* otherwise) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return otherwise;
  return absl::AsciiStrToLower(Shown(found->is_string() ? found->get<std::string>() : found->dump()));
}

// Which of two spellings of a key is there.
const char* Spelling(const json& object, const char* key, const char* other) {
  return object.contains(other) && !object.contains(key) ? other : key;
}

absl::Status CheckKnown(const json& quantization, std::span<const string_view> keys) {
  for (const auto& [key, value] : quantization.items()) {
    if (!IsSet(value) || key.starts_with('_')) continue;
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return UnimplementedError(StrCat("quantization_config with ", Shown(key), ", whose effect is not known"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadBits(const json& quantization, const char* key) {
  const std::optional<int64_t> bits = WholeNumber(quantization, key, 1);
  if (!bits) return InvalidArgumentError(StrCat("quantization_config's ", key, " must be a whole number from 1 on"));
  if (*bits == 4) return absl::OkStatus();
  return UnimplementedError(StrCat("quantization_config with ", key, " ", *bits, " (4 are)"));
}

absl::Status ReadGroup(const json& quantization, const char* key, PackedFormat& read) {
  const auto found = quantization.find(key);
  if (found != quantization.end() && found->is_number_integer() && *found == -1) {
    read.group = 0;
    return absl::OkStatus();
  }
  const std::optional<int64_t> group = WholeNumber(quantization, key, 1);
  if (!group || *group > kLargestGroup) {
    return InvalidArgumentError(
        StrCat("quantization_config's ", key, " must be -1 or a whole number from 1 to ", kLargestGroup));
  }
  read.group = *group;
  return absl::OkStatus();
}

absl::StatusOr<PackedFormat> ParseGptq(const json& quantization) {
  if (absl::Status status = CheckKnown(quantization, kGptqKeys); !status.ok()) return status;
  if (absl::Status status = ReadBits(quantization, "bits"); !status.ok()) return status;
  PackedFormat read{.packing = PackedFormat::Packing::kGptq};
  if (absl::Status status = ReadGroup(quantization, "group_size", read); !status.ok()) return status;
  const std::string format = TextOf(quantization, "checkpoint_format", "gptq");
  if (format != "gptq" && format != "gptq_v2") {
    return UnimplementedError(
        StrCat("quantization_config with checkpoint_format '", format, "' (gptq and gptq_v2 are)"));
  }
  if (const std::string word = TextOf(quantization, "pack_dtype", "int32"); word != "int32") {
    return UnimplementedError(StrCat("quantization_config with pack_dtype '", word, "' (int32 is)"));
  }
  read.added_to_zeros = format == "gptq" ? 1 : 0;
  const auto ordered = quantization.find("desc_act");
  read.orders_by_activation = ordered != quantization.end() && IsSet(*ordered);
  return read;
}

absl::StatusOr<PackedFormat> ParseAwq(const json& quantization) {
  if (absl::Status status = CheckKnown(quantization, kAwqKeys); !status.ok()) return status;
  if (absl::Status status = ReadBits(quantization, Spelling(quantization, "bits", "w_bit")); !status.ok()) {
    return status;
  }
  PackedFormat read{.packing = PackedFormat::Packing::kAwq};
  const char* const group = Spelling(quantization, "group_size", "q_group_size");
  if (absl::Status status = ReadGroup(quantization, group, read); !status.ok()) return status;
  if (const std::string version = TextOf(quantization, "version", "gemm"); version != "gemm") {
    return UnimplementedError(StrCat("quantization_config with version '", version, "' (gemm is)"));
  }
  if (const auto zeros = quantization.find("zero_point"); zeros != quantization.end() && !IsSet(*zeros)) {
    return UnimplementedError("quantization_config of awq with zero_point: false");
  }
  return read;
}

}  // namespace

absl::StatusOr<PackedFormat> ParseQuantizationConfig(const json& quantization) {
  if (!quantization.is_object()) return InvalidArgumentError("quantization_config must be an object");
  const std::string method = TextOf(quantization, "quant_method", "");
  if (method == "gptq") return ParseGptq(quantization);
  if (method == "awq") return ParseAwq(quantization);
  return UnimplementedError(StrCat("quantization_config of quant_method '", method, "' (gptq and awq are)"));
}

}  // namespace roofbench::models
