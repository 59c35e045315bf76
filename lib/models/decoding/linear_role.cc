// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/linear_role.h"

#include <cstddef>
#include <utility>

namespace roofbench::models {
namespace {

constexpr std::array<std::string_view, kLinearRoles.size()> kNames = {"qkv_proj",     "o_proj",    "router",
                                                                      "gate_up_proj", "down_proj", "lm_head"};

constexpr std::array<workload::DecoderComponent, kLinearRoles.size()> kComponents = {
    workload::DecoderComponent::kQkv,    workload::DecoderComponent::kOut,  workload::DecoderComponent::kRouter,
    workload::DecoderComponent::kGateUp, workload::DecoderComponent::kDown, workload::DecoderComponent::kHead};

}  // namespace

std::string_view Name(LinearRole role) { return kNames[static_cast<std::size_t>(role)]; }

std::optional<LinearRole> ParseLinearRole(std::string_view name) {
  for (const LinearRole role : kLinearRoles) {
    if (Name(role) == name) return role;
  }
  return std::nullopt;
}

Storage Storage::Default(workload::WeightFormat format) {
  Storage storage{.format = format};
  if (!workload::QuantizesHead(format)) storage.skipped.insert(LinearRole::kHead);
  return storage;
}

workload::WeightFormat Storage::FormatOf(LinearRole role) const {
  const bool stays = role == LinearRole::kRouter || skipped.count(role) > 0;
  return stays ? Unquantised() : format;
}

workload::StoredDecoder Storage::Of(const workload::Decoder& shape) const {
  std::set<workload::DecoderComponent> kept;
  for (const LinearRole role : skipped) kept.insert(kComponents[static_cast<std::size_t>(role)]);
  return {.shape = shape,
          .format = format,
          .kept = std::move(kept),
          .group = static_cast<double>(group),
          .activations = activations,
          .int8_cache = int8_cache};
}

}  // namespace roofbench::models
