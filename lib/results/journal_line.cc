// SPDX-License-Identifier: Apache-2.0
#include "lib/results/journal_line.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/base/json.h"
#include "lib/results/counters.h"

namespace roofbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostSeconds = 1e6;  // as in tools/report's schema of journals

constexpr Verdict kVerdicts[] = {Verdict::kMeasured, Verdict::kSkipped, Verdict::kFailed, Verdict::kInterrupted};
constexpr timing::StopReason kStops[] = {timing::StopReason::kConverged,  timing::StopReason::kNarrow,
                                         timing::StopReason::kMaxSamples, timing::StopReason::kMaxTime,
                                         timing::StopReason::kMaxWall,    timing::StopReason::kInterrupted};

// The value of an enumeration by its name; throws std::invalid_argument for an unknown name.
template <typename Value, std::size_t count>
Value Named(const Value (&values)[count], const std::string& name) {
  for (const Value value : values) {
    if (Name(value) == name) return value;
  }
  throw std::invalid_argument(absl::StrCat("'", name, "' is not a known value"));
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
  for (const auto& [axis, value] : outcome.axes) line["axes"][axis] = AxisJson(value);
  if (!outcome.reason.empty()) line["reason"] = outcome.reason;
  if (!outcome.text.empty()) line["text"] = outcome.text;
  if (outcome.verdict != Verdict::kMeasured) {
    if (!outcome.samples.seconds.empty()) line["samples_s"] = outcome.samples.seconds;
    return line;
  }
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
  if (!outcome.noise.empty()) line["noise"] = outcome.noise;
  if (WasBesideOthers(outcome.conditions)) line["taken_share"] = std::min(1.0, TakenShare(outcome.conditions));
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

void Require(bool fulfilled, const std::string& else_what) {
  if (!fulfilled) throw std::invalid_argument(else_what);
}

// At least one element, and each a valid time.
std::vector<double> SecondsOf(const Json& json, const std::string& what) {
  auto seconds = json.get<std::vector<double>>();
  Require(!seconds.empty(), absl::StrCat(what, " is empty"));
  Require(std::all_of(seconds.begin(), seconds.end(), [](double one) { return one >= 0 && one <= kMostSeconds; }),
          absl::StrCat(what, " contains an invalid duration"));
  return seconds;
}

// The name of a counter or a phase, which becomes a key of a result and the heading of a column.
std::string NameIn(const std::string& text) {
  const bool fits = !text.empty() && absl::ascii_isalpha(static_cast<unsigned char>(text.front())) &&
                    std::all_of(text.begin(), text.end(), [](char one) {
                      return absl::ascii_isalnum(static_cast<unsigned char>(one)) ||
                             std::string_view("_/.%-").find(one) != std::string_view::npos;
                    });
  Require(fits, "the name of a counter or a phase is invalid");
  return text;
}

timing::Chunk ChunkOf(const Json& json, std::size_t samples) {
  const timing::Chunk chunk = {.first_sample = json.at("first_sample"),
                               .samples = json.at("samples"),
                               .median_seconds = json.at("median_s"),
                               .roof_rate = json.at("roof_rate")};
  const auto count = static_cast<int64_t>(samples);
  const int64_t first = chunk.first_sample;
  Require(first >= 0 && first <= count && chunk.samples >= 0 && chunk.samples <= count - first,
          "a chunk lies outside the samples");
  Require(chunk.median_seconds >= 0 && chunk.roof_rate >= 0, "a chunk contains a negative number");
  return chunk;
}

Outcome OutcomeOf(const Json& line) {
  Outcome outcome;
  outcome.name = line.at("name");
  outcome.repetition = line.at("repetition");
  outcome.verdict = Named(kVerdicts, line.at("verdict"));
  outcome.reason = line.value("reason", "");
  outcome.text = line.value("text", "");
  Require(outcome.repetition >= 0, "the repetition is negative");
  if (outcome.verdict != Verdict::kMeasured) {
    if (line.contains("samples_s")) outcome.samples.seconds = SecondsOf(line.at("samples_s"), "samples_s");
    return outcome;
  }
  outcome.samples.stop = Named(kStops, line.at("stop"));
  if (outcome.samples.stop == timing::StopReason::kInterrupted) return outcome;  // interrupted cases run again
  outcome.samples.seconds = SecondsOf(line.at("samples_s"), "samples_s");
  outcome.samples.cpu_seconds_per_step = line.at("cpu_s");
  outcome.samples.warmup_steps = line.at("warmup_steps");
  outcome.samples.steps_per_sample = line.at("steps_per_sample");
  Require(outcome.samples.cpu_seconds_per_step >= 0 && outcome.samples.cpu_seconds_per_step <= kMostSeconds &&
              outcome.samples.warmup_steps >= 0 && outcome.samples.steps_per_sample > 0,
          "a count or a time is negative or endless");
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  for (const auto& [name, value] : line.at("counters").items()) {
    Require(IsFigure(value), absl::StrCat("the counter ", name, " is beyond every figure of a result"));
    outcome.counters.emplace_back(NameIn(name), value);
    outcome.disturbed |= name == "disturbed" && value != 0;
    outcome.conditions.throttled |= name == "throttled" && value != 0;
  }
  for (const Json& reason : line.value("noise", Json::array())) outcome.noise.push_back(NameIn(reason));
  outcome.conditions.others_share = line.value("taken_share", 0.0);
  Require(outcome.conditions.others_share >= 0 && outcome.conditions.others_share <= 1, "taken_share is no share");
  outcome.roof_name = line.at("roof").at("name");
  outcome.roof_ratios = line.at("roof").at("ratios").get<std::vector<double>>();
  if (line.contains("phase_samples_s")) {
    for (const auto& [name, seconds] : line.at("phase_samples_s").items()) {
      outcome.phases.push_back(NameIn(name));
      outcome.samples.phase_seconds.push_back(SecondsOf(seconds, "phase_samples_s"));
    }
  }
  for (const Json& chunk : line.at("chunks")) {
    outcome.samples.chunks.push_back(ChunkOf(chunk, outcome.samples.seconds.size()));
  }
  return outcome;
}

}  // namespace

std::string JournalLine(const Outcome& outcome) {
  // Exception messages may contain any bytes: invalid UTF-8 is replaced instead of raising an error.
  return OutcomeJson(outcome).dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Outcome> ParseJournalLine(const std::string& line) try {
  const absl::StatusOr<Json> parsed = ParseOrderedJsonObject(line, kMostJournalDepth);
  if (!parsed.ok()) return parsed.status();
  return OutcomeOf(*parsed);
} catch (const std::exception& error) {
  return absl::InvalidArgumentError(error.what());
}

}  // namespace roofbench
