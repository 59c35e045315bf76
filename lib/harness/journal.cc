#include "lib/harness/journal.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

constexpr char kSchema[] = "roofbench-journal-1";

using Json = nlohmann::ordered_json;

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

}  // namespace

absl::Status Journal::Open(const std::string& path, const std::vector<std::pair<std::string, std::string>>& context) {
  path_ = path;
  file_.open(path, std::ios::trunc);
  Json facts = Json::object();
  for (const auto& [key, value] : context) facts[key] = value;
  file_ << Json{{"schema", kSchema}, {"context", std::move(facts)}}.dump() << std::endl;
  if (!file_)
    return absl::UnavailableError(absl::StrCat("cannot write the journal ", path, ": ", std::strerror(errno)));
  return absl::OkStatus();
}

absl::Status Journal::Append(const Outcome& outcome) {
  if (!file_.is_open()) return absl::OkStatus();
  // Text from exceptions may hold anything: what is no UTF-8 is replaced, not thrown over.
  file_ << OutcomeJson(outcome).dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  if (!file_)
    return absl::UnavailableError(absl::StrCat("cannot write the journal ", path_, ": ", std::strerror(errno)));
  return absl::OkStatus();
}

}  // namespace roofbench
