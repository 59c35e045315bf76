// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/checkpoint_summary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/text.h"
#include "lib/models/decoding/decoder_weights.h"

namespace roofbench::models {
namespace {

using absl::StrAppendFormat;
using absl::StrCat;

constexpr double kContext = 2048;

// "model.layers.7.mlp" becomes "model.layers.*.mlp".
std::string GroupName(const std::string& tensor) {
  std::vector<std::string> parts = absl::StrSplit(tensor, '.');
  for (std::string& part : parts) {
    if (part.find_first_not_of("0123456789") == std::string::npos) part.assign(1, '*');
  }
  return absl::StrJoin(parts, ".");
}

std::vector<TensorGroup> Grouped(const Checkpoint& checkpoint) {
  std::vector<TensorGroup> groups;
  for (const auto& [tensor, entry, parameters] : checkpoint.Tensors()) {
    const std::string name = GroupName(tensor);
    auto group = std::find_if(groups.begin(), groups.end(), [&, stored = entry](const TensorGroup& known) {
      return known.name == name && known.shape == stored->shape && known.type == stored->type;
    });
    if (group == groups.end()) {
      groups.push_back({.name = name, .shape = entry->shape, .type = entry->type});
      group = groups.end() - 1;
    }
    ++group->count;
    group->bytes += static_cast<double>(entry->end - entry->begin);
    group->parameters += parameters;
  }
  return groups;
}

std::optional<double> TokensPerSecond(const workload::StoredDecoder& stored, double depth,
                                      const workload::Peaks& peaks) {
  const std::optional<double> seconds = workload::RoofSeconds(stored.DecodeCost(1, depth, depth + 1), peaks);
  if (!seconds || *seconds <= 0) return std::nullopt;
  return 1 / *seconds;
}

// "bf16": the name of the precision, if it is one.
std::string TypeName(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "fp32";
    case at::kBFloat16:
      return "bf16";
    case at::kHalf:
      return "fp16";
    case at::kInt:
      return "int32";
    default:
      return c10::toString(type);
  }
}

// The groups as a tree: a line omits what it shares with the previous one.
std::string Tree(const std::vector<TensorGroup>& groups) {
  std::string text;
  std::vector<std::string> before;
  for (const TensorGroup& group : groups) {
    const std::vector<std::string> parts = absl::StrSplit(group.name, '.');
    const auto leaf = static_cast<std::size_t>(parts.size() - 1);
    std::size_t shared = 0;
    while (shared < leaf && shared < before.size() && parts[shared] == before[shared]) ++shared;
    for (std::size_t i = shared; i < leaf; ++i) {
      StrAppendFormat(&text, "%*s%s\n", static_cast<int>(2 + 2 * i), "", parts[i]);
    }
    const std::string name = absl::StrFormat("%*s%s", static_cast<int>(2 + 2 * leaf), "", parts[leaf]);
    StrAppendFormat(&text, "%-24s %-18s %-5s x %-5d %s\n", name, ShapeText(group.shape), TypeName(group.type),
                    group.count, HumanBytes(group.bytes));
    before = parts;
  }
  return text;
}

std::string PackedText(const PackedFormat& packed) {
  return StrCat(packed.Name(), ", ", packed.group == 0 ? "a row is one group" : StrCat("groups of ", packed.group));
}

std::string RateText(const std::optional<double>& rate) {
  if (!rate) return "-";
  return *rate < 1000 ? absl::StrFormat("%.4g", *rate) : absl::StrFormat("%.0f", *rate);
}

// A count as an integer, if it fits in one.
nlohmann::ordered_json CountJson(double count) {
  return count < 0x1p63 ? nlohmann::ordered_json(std::llround(count)) : nlohmann::ordered_json(count);
}

// null if nothing is packed; a group of null is a row.
nlohmann::ordered_json PackedJson(const std::optional<PackedFormat>& packed) {
  if (!packed) return {};
  nlohmann::ordered_json json = {{"quant_method", packed->Name()}, {"bits", 4}, {"group_size", nullptr}};
  if (packed->group != 0) json["group_size"] = packed->group;
  return json;
}

nlohmann::ordered_json RateJson(const std::optional<double>& rate) {
  return rate ? nlohmann::ordered_json(*rate) : nlohmann::ordered_json();
}

}  // namespace

CheckpointSummary Summarize(const Checkpoint& checkpoint, const workload::Peaks& peaks) {
  const DecoderConfig& config = checkpoint.config();
  CheckpointSummary summary{.tensors = Grouped(checkpoint),
                            .unused_tensors = checkpoint.unused(),
                            .config = config,
                            .stored_type = checkpoint.StoredType(),
                            .parameters = config.shape.Parameters(),
                            .active_parameters = config.shape.ActiveParameters(),
                            .context = std::min(kContext, static_cast<double>(config.max_positions))};
  if (peaks.read > 0) summary.read_roof = peaks.read;
  for (const TensorGroup& group : summary.tensors) summary.stored_bytes += group.bytes;
  for (const workload::WeightFormat format : workload::kWeightFormats) {
    const Storage storage = DefaultStorage(config, format);
    PrecisionSummary precision{.format = format, .fits = CheckStorage(config, storage)};
    if (precision.fits.ok()) {
      const workload::StoredDecoder stored = storage.Of(config.shape);
      precision.weight_bytes = stored.ModelBytes();
      precision.kv_bytes_per_token = config.shape.KvBytesPerToken(format);
      precision.resident_bytes = stored.ResidentBytes(1, summary.context, summary.context);
      precision.first_tokens_per_second = TokensPerSecond(stored, 0, peaks);
      precision.last_tokens_per_second = TokensPerSecond(stored, summary.context, peaks);
    }
    summary.precisions.push_back(std::move(precision));
  }
  summary.int8_kv_bytes_per_token =
      workload::StoredDecoder{.shape = config.shape, .int8_cache = true}.KvBytesPerToken();
  return summary;
}

std::string SummaryText(const CheckpointSummary& summary) {
  const workload::Decoder& shape = summary.config.shape;
  const workload::Transformer& base = shape.base;
  std::string text = Tree(summary.tensors);
  if (summary.unused_tensors > 0)
    StrAppendFormat(&text, "  and %d tensors that are not used\n", summary.unused_tensors);
  StrAppendFormat(&text,
                  "\n%.0f layers, width %.0f, feed forward %.0f, %.0f heads of %.0f (%.0f of keys), %.0f tokens%s\n",
                  base.layers, base.d_model, base.d_ff, base.heads, base.HeadDim(), base.KvHeads(), base.vocab,
                  base.tied_head ? ", head tied" : "");
  if (shape.IsMixture()) {
    StrAppendFormat(&text, "%.0f experts, of which a token takes %.0f\n", shape.experts, shape.active_experts);
  }
  if (shape.window > 0) {
    StrAppendFormat(
        &text, "attention over %.0f keys at most%s\n", shape.window,
        shape.whole_layers > 0 ? absl::StrFormat(", over all in %.0f of the layers", shape.whole_layers) : "");
  }
  StrAppendFormat(&text, "%.0f parameters, of which %.0f are multiplied with a token; %s stored\n", summary.parameters,
                  summary.active_parameters, HumanBytes(summary.stored_bytes));
  if (summary.config.packed)
    StrAppendFormat(&text, "linear layers in 4 bits (%s)\n", PackedText(*summary.config.packed));
  StrAppendFormat(&text, "up to %d positions; stop ids %s\n", summary.config.max_positions,
                  summary.config.stop_ids.empty() ? "none" : absl::StrJoin(summary.config.stop_ids, ","));
  const std::string context = absl::StrFormat("%.0f", summary.context);
  StrAppendFormat(&text, "\n%-9s %11s %11s %15s %12s %12s\n", "precision", "weights", "KV a token", "memory",
                  "tokens/s", "tokens/s");
  StrAppendFormat(&text, "%-9s %11s %11s %15s %12s %12s\n", "", "", "", StrCat("at ", context), "first",
                  StrCat("after ", context));
  for (const PrecisionSummary& row : summary.precisions) {
    const std::string name(Name(row.format));
    if (!row.fits.ok()) {
      StrAppendFormat(&text, "%-9s %s\n", name, std::string(row.fits.message()));
      continue;
    }
    StrAppendFormat(&text, "%-9s %11s %11s %15s %12s %12s\n", name, HumanBytes(row.weight_bytes),
                    HumanBytes(row.kv_bytes_per_token), HumanBytes(row.resident_bytes),
                    RateText(row.first_tokens_per_second), RateText(row.last_tokens_per_second));
  }
  StrAppendFormat(
      &text, "memory: weights, keys and values of %s tokens, and what a prompt of so many computes at once\n", context);
  if (base.tied_head) {
    text += "the embedding is not quantized; a quantized head is stored beside it\n";
  }
  StrAppendFormat(&text, "keys and values in 8 bits: %s a token\n", HumanBytes(summary.int8_kv_bytes_per_token));
  return text;
}

std::string ReadRoofText(const CheckpointSummary& summary) {
  return summary.read_roof ? StrCat("read ", HumanRate(*summary.read_roof, "B/s")) : "reading not known";
}

nlohmann::ordered_json SummaryJson(const CheckpointSummary& summary) {
  using Json = nlohmann::ordered_json;
  const workload::Decoder& shape = summary.config.shape;
  const workload::Transformer& base = shape.base;
  Json json = {{"parameters", CountJson(summary.parameters)},
               {"active_parameters", CountJson(summary.active_parameters)},
               {"stored_dtype", TypeName(summary.stored_type)},
               {"packed", PackedJson(summary.config.packed)},
               {"stored_bytes", CountJson(summary.stored_bytes)},
               {"layers", CountJson(base.layers)},
               {"d_model", CountJson(base.d_model)},
               {"d_ff", CountJson(base.d_ff)},
               {"heads", CountJson(base.heads)},
               {"kv_heads", CountJson(base.KvHeads())},
               {"head_dim", CountJson(base.HeadDim())},
               {"vocab", CountJson(base.vocab)},
               {"tied_head", base.tied_head},
               {"experts", CountJson(shape.experts)},
               {"active_experts", CountJson(shape.active_experts)},
               {"window", CountJson(shape.window)},
               {"window_layers", CountJson(shape.window > 0 ? base.layers - shape.whole_layers : 0)},
               {"attention_bias", shape.attention_bias},
               {"output_bias", shape.output_bias},
               {"head_norms", shape.head_norms},
               {"output_norms", shape.output_norms},
               {"max_positions", summary.config.max_positions},
               {"stop_ids", summary.config.stop_ids},
               {"context", CountJson(summary.context)},
               {"int8_kv_bytes_per_token", CountJson(summary.int8_kv_bytes_per_token)},
               {"unused_tensors", summary.unused_tensors},
               {"roof_read", RateJson(summary.read_roof)},
               {"tensors", Json::array()},
               {"precisions", Json::array()}};
  for (const TensorGroup& group : summary.tensors) {
    json["tensors"].push_back({{"name", group.name},
                               {"shape", group.shape},
                               {"dtype", TypeName(group.type)},
                               {"count", group.count},
                               {"parameters", CountJson(group.parameters)},
                               {"bytes", CountJson(group.bytes)}});
  }
  for (const PrecisionSummary& row : summary.precisions) {
    Json precision = {{"precision", Name(row.format)}};
    if (row.fits.ok()) {
      precision.update({{"weight_bytes", CountJson(row.weight_bytes)},
                        {"kv_bytes_per_token", CountJson(row.kv_bytes_per_token)},
                        {"resident_bytes", CountJson(row.resident_bytes)},
                        {"first_tokens_per_second", RateJson(row.first_tokens_per_second)},
                        {"last_tokens_per_second", RateJson(row.last_tokens_per_second)}});
    } else {
      precision["unsupported"] = std::string(row.fits.message());
    }
    json["precisions"].push_back(std::move(precision));
  }
  return json;
}

}  // namespace roofbench::models
