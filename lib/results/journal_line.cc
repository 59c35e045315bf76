// SPDX-License-Identifier: Apache-2.0
#include "lib/results/journal_line.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr Verdict kVerdicts[] = {Verdict::kMeasured, Verdict::kSkipped, Verdict::kFailed, Verdict::kInterrupted};
constexpr timing::StopReason kStops[] = {timing::StopReason::kConverged, timing::StopReason::kMaxSamples,
                                         timing::StopReason::kMaxTime, timing::StopReason::kMaxWall,
                                         timing::StopReason::kInterrupted};

// The value of an enumeration by its name; std::invalid_argument for a name that it has not.
template <typename Value, std::size_t count>
Value Named(const Value (&values)[count], const std::string& name) {
  for (const Value value : values) {
    if (Name(value) == name) return value;
  }
  throw std::invalid_argument(absl::StrCat("'", name, "' is no known value"));
}

Json ChunksJson(const timing::Samples& samples) {
  Json chunks = Json::array();
  for (const timing::Chunk& chunk : samples.chunks) {
    chunks.push_back({{"first_sample", chunk.first_sample},
                      {"samples", chunk.samples},
                      {"median_s", chunk.median_seconds},
                      {"roof_rate", chunk.roof_rate}});
  }
  return chunks;
}

Json OutcomeJson(const Outcome& outcome) {
  Json line = {
      {"name", outcome.name}, {"repetition", outcome.repetition}, {"verdict", std::string(Name(outcome.verdict))}};
  if (!outcome.reason.empty()) line["reason"] = outcome.reason;
  if (outcome.verdict != Verdict::kMeasured) return line;
  line["stop"] = std::string(Name(outcome.samples.stop));
  line["median_s"] = outcome.summary.median;
  line["cpu_s"] = outcome.samples.cpu_seconds_per_step;
  line["warmup_steps"] = outcome.samples.warmup_steps;
  line["steps_per_sample"] = outcome.samples.steps_per_sample;
  line["flops"] = outcome.cost.Flops();
  line["bytes"] = outcome.cost.Bytes();
  Json by_precision = Json::object();
  for (const workload::Dtype dtype : workload::kDtypes) {
    if (outcome.cost.Flops(dtype) > 0) by_precision[std::string(workload::Name(dtype))] = outcome.cost.Flops(dtype);
  }
  line["flops_by_precision"] = std::move(by_precision);
  Json counters = Json::object();
  for (const auto& [name, value] : outcome.counters) counters[name] = value;
  line["counters"] = std::move(counters);
  line["roof"] = {{"name", outcome.roof_name}, {"ratios", outcome.roof_ratios}};
  Json phases = Json::object();
  for (std::size_t i = 0; i < outcome.phases.size(); ++i) phases[outcome.phases[i]] = outcome.samples.phase_seconds[i];
  if (!phases.empty()) line["phase_samples_s"] = std::move(phases);
  line["samples_s"] = outcome.samples.seconds;
  line["chunks"] = ChunksJson(outcome.samples);
  return line;
}

Outcome OutcomeOf(const Json& line) {
  Outcome outcome;
  outcome.name = line.at("name");
  outcome.repetition = line.at("repetition");
  outcome.verdict = Named(kVerdicts, line.at("verdict"));
  outcome.reason = line.value("reason", "");
  if (outcome.verdict != Verdict::kMeasured) return outcome;
  outcome.samples.stop = Named(kStops, line.at("stop"));
  outcome.samples.seconds = line.at("samples_s").get<std::vector<double>>();
  outcome.samples.cpu_seconds_per_step = line.at("cpu_s");
  outcome.samples.warmup_steps = line.at("warmup_steps");
  outcome.samples.steps_per_sample = line.at("steps_per_sample");
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  for (const auto& [name, value] : line.at("counters").items()) outcome.counters.emplace_back(name, value);
  outcome.roof_name = line.at("roof").at("name");
  outcome.roof_ratios = line.at("roof").at("ratios").get<std::vector<double>>();
  if (line.contains("phase_samples_s")) {
    for (const auto& [name, seconds] : line.at("phase_samples_s").items()) {
      outcome.phases.push_back(name);
      outcome.samples.phase_seconds.push_back(seconds.get<std::vector<double>>());
    }
  }
  for (const Json& chunk : line.at("chunks")) {
    outcome.samples.chunks.push_back({.first_sample = chunk.at("first_sample"),
                                      .samples = chunk.at("samples"),
                                      .median_seconds = chunk.at("median_s"),
                                      .roof_rate = chunk.at("roof_rate")});
  }
  return outcome;
}

}  // namespace

std::string JournalLine(const Outcome& outcome) {
  // Text from exceptions may hold anything: what is no UTF-8 is replaced, not thrown over.
  return OutcomeJson(outcome).dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Outcome> ParseJournalLine(const std::string& line) {
  try {
    return OutcomeOf(Json::parse(line));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

}  // namespace roofbench
