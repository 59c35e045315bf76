// SPDX-License-Identifier: Apache-2.0
#include "lib/results/model_work.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/workload/models/decoder.h"
#include "lib/workload/models/transformer.h"
#include "lib/workload/roofline.h"

namespace roofbench {
namespace {

using Json = nlohmann::ordered_json;
using workload::Cost;
using workload::Dtype;
using workload::WeightFormat;

constexpr double kPrompt = 512;
constexpr double kSequences = 4;
constexpr double kContext = 128;

// {"flops": {"bf16": …}, "bytes": {"read": …}}, without what is zero.
Json SumOf(const Cost& cost) {
  Json flops = Json::object();
  Json bytes = Json::object();
  const auto add = [](Json& to, std::string_view name, double amount) {
    if (amount > 0) to[std::string(name)] = static_cast<int64_t>(std::llround(amount));
  };
  for (const Dtype dtype : workload::kDtypes) add(flops, workload::Name(dtype), cost.Flops(dtype));
  for (const auto& [kind, amount] : workload::TrafficOf(cost).ByKind()) add(bytes, kind, amount);
  return {{"flops", std::move(flops)}, {"bytes", std::move(bytes)}};
}

// `parts` follow one another; the first has the peak of memory.
Json Row(std::string_view model, std::string_view step, std::string_view format, double tokens,
         const std::vector<Cost>& parts) {
  Json row = {{"model", model},
              {"step", step},
              {"format", format},
              {"tokens", std::llround(tokens)},
              {"memory", std::llround(parts.front().resident_bytes)},
              {"parts", Json::array()}};
  for (const Cost& part : parts) row["parts"].push_back(SumOf(part));
  return row;
}

void AddTraining(std::string_view model, const workload::Transformer& shape, Json& rows) {
  for (const Dtype compute : {Dtype::kFp32, Dtype::kBf16}) {
    const workload::TransformerTraining training = {
        .shape = shape, .batch = kSequences, .context = kContext, .compute = compute};
    Cost passes = training.Step(workload::TrainingMode::kForwardBackward);
    passes.resident_bytes = training.Memory(workload::TrainingMode::kStep).peak;
    rows.push_back(Row(model, "training", workload::Name(compute), training.Tokens(), {passes, training.Optimizer()}));
  }
}

}  // namespace

Json DescribeModelWork() {
  Json rows = Json::array();
  for (const workload::DecoderPreset& preset : workload::DecoderPresets()) {
    if (!preset.published) continue;
    for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kInt4}) {
      const workload::StoredDecoder stored = {.shape = preset.shape, .format = format};
      const std::string_view name = workload::Name(format);
      rows.push_back(Row(preset.name, "token", name, 1, {stored.DecodeCost(1, kPrompt, kPrompt + 1)}));
      // In other formats a prompt takes the same products.
      if (format == WeightFormat::kBf16) {
        rows.push_back(Row(preset.name, "prompt", name, kPrompt, {stored.PrefillCost(1, kPrompt, kPrompt)}));
      }
    }
    if (!preset.shape.IsMixture()) AddTraining(preset.name, preset.shape.base, rows);
  }
  for (const workload::TransformerPreset& preset : workload::kTransformerPresets) {
    AddTraining(preset.name, preset.shape, rows);
  }
  return rows;
}

}  // namespace roofbench
