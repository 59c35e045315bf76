// SPDX-License-Identifier: Apache-2.0
#include "lib/results/counters.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "lib/base/text.h"
#include "lib/timing/series.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

constexpr double kMilliseconds = 1e3;
constexpr double kNanoseconds = 1e9;
// Above these limits, the median is too imprecise: width of its interval, share of the processors that others used, and
// scatter between chunks.
constexpr double kNoisyInterval = 0.05;
constexpr double kNoisyShare = 0.05;
constexpr double kNoisyChunks = 0.10;
// Host time to enqueue over device time above which the host is the bottleneck.
constexpr double kLaunchBound = 1.0;

using enum Better;
using Value = std::optional<double>;

Value PerSecond(double work, const CounterContext& c) {
  if (work <= 0 || c.outcome.summary.median <= 0) return std::nullopt;
  return work / c.outcome.summary.median;
}

Value FlopUtilization(const CounterContext& c, const hardware::Datasheet* sheet) {
  if (sheet == nullptr) return std::nullopt;
  const Value seconds = workload::ComputeSeconds(c.outcome.cost, sheet->peaks);
  return seconds ? PerSecond(*seconds, c) : std::nullopt;
}

Value MemoryUtilization(const CounterContext& c, const hardware::Datasheet* sheet) {
  if (sheet == nullptr || sheet->peaks.read <= 0) return std::nullopt;
  return PerSecond(c.outcome.cost.Bytes() / sheet->peaks.read, c);
}

Value ModelUtilization(const CounterContext& c, const hardware::Datasheet* sheet) {
  if (sheet == nullptr) return std::nullopt;
  const double peak = sheet->peaks.flops_per_second[workload::Index(c.outcome.model.dtype)];
  return peak > 0 ? PerSecond(c.outcome.model.flops / peak, c) : std::nullopt;
}

// Whether `pattern`, in which "<…>" matches one word, is the row of a figure that a case supplies itself.
bool IsRowOf(std::string_view pattern, std::string_view figure) {
  const std::size_t open = pattern.find('<');
  if (open == std::string_view::npos) return pattern == figure;
  const std::string_view before = pattern.substr(0, open);
  const std::string_view after = pattern.substr(pattern.find('>') + 1);
  if (!figure.starts_with(before) || !figure.ends_with(after) || figure.size() <= before.size() + after.size()) {
    return false;
  }
  const std::string_view name = figure.substr(before.size(), figure.size() - before.size() - after.size());
  return name.find('_') == std::string_view::npos;
}

// Median seconds of a phase, or of the step.
double PhaseSeconds(const CounterContext& c, std::optional<std::size_t> phase) {
  return phase ? timing::Median(c.outcome.samples.phase_seconds.at(*phase)) : c.outcome.summary.median;
}

double TokenSeconds(const CounterContext& c) { return PhaseSeconds(c, c.outcome.model.token_phase); }
double PromptSeconds(const CounterContext& c) { return PhaseSeconds(c, c.outcome.model.prompt_phase); }

Value Ratio(double numerator, double denominator) {
  return numerator > 0 && denominator > 0 ? Value(numerator / denominator) : std::nullopt;
}

// Bytes per second of a language model's weights, keys and values during generation.
Value StreamedRate(const CounterContext& c) { return Ratio(c.outcome.model.token_bytes, TokenSeconds(c)); }

// The rate of the memory roof probed with the case.
Value MeasuredMemoryRate(const CounterContext& c) {
  std::vector<double> rates;
  for (const timing::Chunk& chunk : c.outcome.samples.chunks) {
    if (chunk.roof_rate > 0) rates.push_back(chunk.roof_rate);
  }
  if (c.outcome.disturbed || c.outcome.roof_name != "memory" || rates.empty()) return std::nullopt;
  return timing::Median(rates);
}

// The median of the case's shares of the roof, one per chunk.
Value ShareOfRoof(const CounterContext& c, const std::vector<double>& ratios) {
  return c.outcome.disturbed || ratios.empty() ? std::nullopt : Value(timing::Median(ratios));
}

Value Positive(double value) { return value > 0 ? Value(value) : std::nullopt; }

Value Scaled(Value value, double factor) { return value ? Value(*value * factor) : std::nullopt; }

template <double timing::Summary::*field>
Value Milliseconds(const CounterContext& c) {
  return c.outcome.summary.*field * kMilliseconds;
}

Value FlagOf(std::optional<bool> flag) { return flag ? Value(*flag ? 1 : 0) : std::nullopt; }

// Of the 95th percentile; nullopt where too few values bound it.
Value OfP95(std::span<const double> values, double timing::BoundedQuantile::*part, double unit) {
  const std::optional<timing::BoundedQuantile> p95 = timing::QuantileInInterval(values, 0.95);
  return p95 ? Value(*p95.*part * unit) : std::nullopt;
}

// Whether a counter varies between runs: the same work has the same bytes and counts, but not the same time.
constexpr bool kMeasured = true;
constexpr bool kExact = false;
constexpr bool kHeadline = true;

constexpr CounterSpec kTable[] = {
    {"FLOP/s", "FLOP/s", kHigher, 0.01, kMeasured, "arithmetic of the case's formula over the median time",
     "no arithmetic", [](const CounterContext& c) { return PerSecond(c.outcome.cost.Flops(), c); }},
    {"bytes/s", "B/s", kHigher, 0.01, kMeasured, "algorithmic bytes (each operand once) over the median time",
     "no traffic", [](const CounterContext& c) { return PerSecond(c.outcome.cost.Bytes(), c); }},
    {"algbw", "B/s", kHigher, 0.02, kMeasured,
     "algorithm bandwidth of a collective: bytes of the array over the median time of the slowest rank",
     "the case is not a collective", [](const CounterContext& c) { return PerSecond(c.outcome.cost.array_bytes, c); },
     kHeadline},
    {"busbw", "B/s", kHigher, 0.02, kMeasured,
     "bus bandwidth, as nccl-tests define it: algbw times what a rank has to send of each byte, which compares with "
     "the "
     "speed of a link",
     "as algbw", [](const CounterContext& c) { return PerSecond(c.outcome.cost.bus_bytes, c); }, kHeadline},
    {"wirebw", "B/s", kHigher, 0.02, kMeasured,
     "bytes that the busiest rank sends with the algorithm of the backend, over the same time", "as algbw",
     [](const CounterContext& c) { return PerSecond(c.outcome.cost.wire_bytes, c); }, kHeadline},
    {"rank_skew_ms", "ms", kLower, 0.5, kMeasured, "time between the first and the last rank's end of a step, median",
     "the run has one rank"},
    {"last_rank", "number", kNeither, 0, kMeasured, "the rank that ends its steps last most often", "as rank_skew_ms"},
    {"link_alpha_ms", "ms", kLower, 0.5, kMeasured,
     "α of a message between two ranks, which takes α + bytes/β: the median of the probes between the samples",
     "as algbw, or --roof_share=0"},
    {"linkbw", "B/s", kHigher, 0.1, kMeasured, "β of the same", "as link_alpha_ms"},
    {"computation_ms", "ms", kLower, 0.02, kMeasured,
     "a step that ranks share, without what they exchange: the slowest rank's, median, in turns with the whole step",
     "the case has no `parallel`"},
    {"communication_ms", "ms", kLower, 0.05, kMeasured, "the step's collectives alone, in their order, likewise",
     "as computation_ms, or there is one rank"},
    {"exposed_communication_ms", "ms", kLower, 0.05, kMeasured,
     "what the collectives add to the step: the whole step less its computation alone, likewise",
     "as communication_ms"},
    {"communication_overlap", "fraction", kHigher, 0.05, kMeasured,
     "share of communication_ms that computation hides: 1 - exposed / communication, below 0 where each slows the "
     "other down",
     "as communication_ms"},
    {"sent_bytes", "B", kLower, 0, kExact,
     "bytes that the busiest rank sends in a step, with the algorithms of the backend",
     "as computation_ms, or NCCL sends them"},
    {"predicted_sent_bytes", "B", kNeither, 0, kExact,
     "bytes that each rank has to send by the formula of `parallel`, such as 2(n-1)/n of the parameters",
     "as computation_ms"},
    {"flop_util", "fraction", kHigher, 0.01, kMeasured,
     "time of the arithmetic at this device's datasheet peaks over the median",
     "the table of datasheets has no row for the device, or no peak for the precision (every CPU)",
     [](const CounterContext& c) { return FlopUtilization(c, c.datasheet); }},
    {"mem_util", "fraction", kHigher, 0.01, kMeasured,
     "time of the traffic at this device's datasheet bandwidth over the median",
     "the table of datasheets has no row for the device (every CPU)",
     [](const CounterContext& c) { return MemoryUtilization(c, c.datasheet); }},
    {"<ref>_flop_util", "fraction", kHigher, 0.01, kMeasured, "as flop_util, against the datasheet of --reference",
     "no arithmetic, or the reference has no peak for the precision",
     [](const CounterContext& c) { return FlopUtilization(c, &c.reference); }},
    {"<ref>_mem_util", "fraction", kHigher, 0.01, kMeasured, "as mem_util, against the datasheet of --reference",
     "no traffic", [](const CounterContext& c) { return MemoryUtilization(c, &c.reference); }},
    {"roof", "fraction", kHigher, 0.02, kMeasured,
     "roof fraction: the time that the roof measured between this case's samples allows, over the case's time",
     "the precision has no measured roof, the case does no work that a roof bounds, or `disturbed`",
     [](const CounterContext& c) { return ShareOfRoof(c, c.outcome.roof_ratios); }},
    {"samples", "count", kNeither, 0, kMeasured, "number of samples in the median", "",
     [](const CounterContext& c) { return Value(static_cast<double>(c.outcome.summary.samples)); }},
    {"mean_ms", "ms", kLower, 0.02, kMeasured, "mean of the samples", "", Milliseconds<&timing::Summary::mean>},
    {"stddev_ms", "ms", kLower, 0.5, kMeasured, "standard deviation of the samples", "",
     Milliseconds<&timing::Summary::stddev>},
    {"p95_ms", "ms", kLower, 0.05, kMeasured, "95th percentile of the samples",
     "fewer than 72 samples, which cannot bound it at 95 %",
     [](const CounterContext& c) {
       return OfP95(c.outcome.samples.seconds, &timing::BoundedQuantile::value, kMilliseconds);
     }},
    {"p95_ci", "fraction", kLower, 0.5, kMeasured,
     "half-width of its 95 % confidence interval over it, by order statistics of independent samples", "as p95_ms",
     [](const CounterContext& c) { return OfP95(c.outcome.samples.seconds, &timing::BoundedQuantile::ci, 1); }},
    {"min_ms", "ms", kLower, 0.02, kMeasured, "fastest sample", "", Milliseconds<&timing::Summary::min>},
    {"ci", "fraction", kLower, 0.5, kMeasured,
     "half-width of the median's 95 % confidence interval over the median, allowing for the correlation of samples, "
     "within this process: the median of another process may lie outside",
     "fewer than six samples, which cannot bound a median at 95 %",
     [](const CounterContext& c) -> Value {
       const timing::Summary& summary = c.outcome.summary;
       return summary.samples >= timing::kFewestForInterval ? Value(summary.ci) : std::nullopt;
     }},
    {"lag1", "number", kNeither, 0, kMeasured,
     "rank correlation of each sample with the next: 0 for independent samples, near 1 for a drift, below 0 where slow "
     "and fast ones alternate",
     "fewer than six samples",
     [](const CounterContext& c) -> Value {
       if (c.outcome.summary.samples < timing::kFewestForInterval) return std::nullopt;
       return timing::LagOneCorrelation(c.outcome.samples.seconds);
     }},
    {"first_step_ms", "ms", kLower, 0.2, kMeasured,
     "the first step after the case was checked, never among the samples unless --warmup_iters=0", "",
     [](const CounterContext& c) { return Value(c.outcome.samples.first_step_seconds * kMilliseconds); }},
    {"compile_ms", "ms", kLower, 0.2, kMeasured,
     "time in which Inductor and a C++ compiler made the case's package or packages, in this run or the one that first "
     "needed them",
     "any implementation other than `compiled`"},
    {"package_load_ms", "ms", kLower, 0.2, kMeasured,
     "time to load the case's packages, once made: what `compiled` costs where it is warm", "as compile_ms"},
    {"recompiles", "count", kNeither, 0, kMeasured,
     "packages that were made for the case in this run, 0 if all were kept from an earlier one; its steps make none, "
     "as a package has fixed shapes",
     "as compile_ms"},
    {"peak_mem", "B", kLower, 0.005, kExact, "peak bytes of tensors during one step, its operands included",
     "the step uses no tensors", [](const CounterContext& c) { return Positive(c.outcome.peak_memory_bytes); }},
    {"predicted_mem", "B", kNeither, 0, kExact, "peak_mem as predicted by the case's formula", "no prediction",
     [](const CounterContext& c) { return Positive(c.outcome.cost.resident_bytes); }},
    {"process_mem", "B", kLower, 0.02, kMeasured,
     "most memory that the process had in RAM while the case was built and run",
     "a cold case; a GPU; a system that does not report it",
     [](const CounterContext& c) { return c.outcome.process_bytes; }},
    {"predicted_process_mem", "B", kNeither, 0, kMeasured,
     "predicted_mem and what the process had in RAM before: its libraries and the buffers of the memory roof",
     "as process_mem", [](const CounterContext& c) { return c.outcome.predicted_process_bytes; }},
    {"<phase>_ms", "ms", kLower, 0.01, kMeasured,
     "median of a named phase (forward, backward, …) of the same steps; <phase>_mean_ms, <phase>_stddev_ms and, where "
     "p95_ms is known, <phase>_p95_ms are of the same samples",
     "the step has no phases"},
    {"<phase>_roof", "fraction", kHigher, 0.02, kMeasured, "as roof, of the phase's own operations and time",
     "the case's formula lists no operations of the phase, the roof is unknown, or the phase ran above it"},
    {"parameters", "count", kNeither, 0, kExact, "exact number of parameters", "the case is not a model",
     [](const CounterContext& c) { return Positive(c.outcome.parameters); }},
    {"mfu", "fraction", kHigher, 0.01, kMeasured,
     "model FLOP utilization: the model's FLOPs by the PaLM convention over this device's datasheet peak and the "
     "median",
     "the case is not a model, or the table of datasheets has no peak for the device and precision (every CPU)",
     [](const CounterContext& c) { return ModelUtilization(c, c.datasheet); }},
    {"mfu_measured", "fraction", kHigher, 0.02, kMeasured,
     "the same over the arithmetic roof measured between this case's samples",
     "the case is not a model, memory is what bounds it, the precision has no measured roof, or `disturbed`",
     [](const CounterContext& c) { return ShareOfRoof(c, c.outcome.model_ratios); }},
    {"<component>_params", "count", kNeither, 0, kExact,
     "parameters of a component: embedding, attention, feedforward, norm, head", "the case is not a transformer"},
    {"predicted_<component>_mem", "B", kNeither, 0, kExact, "<component>_mem as predicted by the case's formula",
     "as <component>_mem"},
    {"<component>_mem", "B", kLower, 0.005, kExact,
     "bytes of a model's parameters, gradients, optimizer state (parameter_mem, …) and of what forward keeps for "
     "backward (activation_mem)",
     "the case is not a training step, or stops before it"},
    {"ttft_ms", "ms", kLower, 0.02, kMeasured,
     "time to first token: the prompt read and its first token chosen, median; of several prompts, of whatever "
     "lengths, that of each, as one pass over the weights reads all of them",
     "the case reads no prompt",
     [](const CounterContext& c) -> Value {
       if (c.outcome.model.prompt_tokens <= 0) return std::nullopt;
       return PromptSeconds(c) * kMilliseconds;
     },
     kHeadline},
    {"itl_ms", "ms", kLower, 0.02, kMeasured,
     "inter-token latency: between a token and the next, median over all tokens",
     "the case generates no token after the first, or a draft guesses them", nullptr, kHeadline},
    {"itl_p95_ms", "ms", kLower, 0.05, kMeasured, "its 95th percentile", "as itl_ms, or fewer than 72 gaps"},
    {"itl_p95_ci", "fraction", kLower, 0.5, kMeasured, "half-width of its interval over it, as p95_ci",
     "as itl_p95_ms"},
    {"itl_p99_ms", "ms", kLower, 0.1, kMeasured, "its 99th percentile", "as itl_ms, or fewer than 368 gaps"},
    {"itl_p99_ci", "fraction", kLower, 0.5, kMeasured, "half-width of its interval over it, as p95_ci",
     "as itl_p99_ms"},
    {"tokens/s", "tokens/s", kHigher, 0.02, kMeasured,
     "tokens of a training step over its median; of a generation, those of all sequences after each one's first over "
     "the median time that they took (no prompt counts)",
     "the case processes no tokens, or generates none after the first",
     [](const CounterContext& c) { return Ratio(c.outcome.model.tokens, TokenSeconds(c)); }, kHeadline},
    {"e2e_tokens/s", "tokens/s", kHigher, 0.02, kMeasured,
     "end to end: all new tokens of a generation over its median, prompt included",
     "the case is not a whole generation",
     [](const CounterContext& c) { return Ratio(c.outcome.model.new_tokens, c.outcome.summary.median); }},
    {"prefill_tokens/s", "tokens/s", kHigher, 0.02, kMeasured,
     "tokens of the prompts over the median time to read them", "the case reads no prompt",
     [](const CounterContext& c) { return Ratio(c.outcome.model.prompt_tokens, PromptSeconds(c)); }},
    {"target_tokens/s", "tokens/s", kNeither, 0, kExact,
     "the published value for this experiment on its device, counted like tokens/s",
     "nothing was published for the case, or it was counted like e2e_tokens/s"},
    {"target_e2e_tokens/s", "tokens/s", kNeither, 0, kExact, "the same, counted like e2e_tokens/s",
     "nothing was published for the case, or it was counted like tokens/s"},
    {"target_bytes/s", "B/s", kNeither, 0, kExact,
     "the published bandwidth for this experiment on its device: weights that a token reads, times e2e_tokens/s",
     "no bandwidth was published for the case"},
    {"script_tokens/s", "tokens/s", kNeither, 0.02, kMeasured,
     "e2e_tokens/s as the published script of the experiment counts tokens: a prompt and its new tokens, of one "
     "sequence",
     "the script counts as e2e_tokens/s does, or the case is not a published one",
     [](const CounterContext& c) -> Value {
       for (const auto& [name, tokens] : c.outcome.figures) {
         if (name == "script_tokens") return PerSecond(tokens, c);
       }
       return std::nullopt;
     }},
    {"script_tokens", "count", kNeither, 0, kExact, "tokens that the published script of the experiment counts",
     "as script_tokens/s"},
    {"mbu", "fraction", kHigher, 0.02, kMeasured,
     "model bandwidth utilization: weights, keys and values that the new tokens read, over this device's datasheet",
     "the case generates no tokens, or the table of datasheets has no row for the device (every CPU)",
     [](const CounterContext& c) -> Value {
       const Value rate = StreamedRate(c);
       const hardware::Datasheet* sheet = c.datasheet;
       return rate && sheet != nullptr && sheet->peaks.read > 0 ? Value(*rate / sheet->peaks.read) : std::nullopt;
     }},
    {"<ref>_mbu", "fraction", kHigher, 0.02, kMeasured, "as mbu, against the datasheet of --reference",
     "the case generates no tokens",
     [](const CounterContext& c) -> Value {
       const Value rate = StreamedRate(c);
       return rate ? Value(*rate / c.reference.peaks.read) : std::nullopt;
     }},
    {"mbu_measured", "fraction", kHigher, 0.02, kMeasured, "as mbu, over the memory roof measured inside this case",
     "the case generates no tokens, memory is not what bounds it, or `disturbed`",
     [](const CounterContext& c) -> Value {
       const Value rate = StreamedRate(c);
       const Value roof = MeasuredMemoryRate(c);
       return rate && roof ? Value(*rate / *roof) : std::nullopt;
     }},
    {"model_bytes", "B", kLower, 0.001, kExact, "weights of the model as they are stored",
     "the case is not a language model"},
    {"load_ms", "ms", kLower, 0.2, kMeasured, "time to make or load the weights", "the case is not a language model"},
    {"prepare_ms", "ms", kLower, 0.2, kMeasured,
     "time to prepare LibTorch's attention for the lengths of the prompts, before the first step: cuDNN's plans, on "
     "GPUs where LibTorch takes it for prompts",
     "the device is a CPU, or the case is not a whole generation"},
    {"first_generation_ms", "ms", kLower, 0.2, kMeasured,
     "the very first step, when only the plans of prepare_ms are warm; tokens after the prompts need none, as they "
     "take other kernels than cuDNN's",
     "the case is not a language model"},
    {"attention_backend", "number", kNeither, 0, kExact,
     "LibTorch's kernel for the attention of a token, or of a training step: 0 composed, 1 flash, 2 memory-efficient, "
     "3 cuDNN",
     "the case is not a language model, or its attention is our own or naive"},
    {"perplexity", "number", kLower, 0.005, kMeasured, "e to the mean of -ln p of a text's next tokens",
     "the case scores no text", nullptr, kHeadline},
    {"perplexity_change", "fraction", kLower, 0.002, kMeasured,
     "perplexity over that of the checkpoint as it is stored, in fp32 arithmetic, less 1", "as perplexity"},
    {"kl_mean", "nats", kLower, 0.05, kMeasured,
     "mean KL divergence of the next token's distribution from that of the checkpoint as it is stored", "as perplexity",
     nullptr, kHeadline},
    {"kl_p99", "nats", kLower, 0.1, kMeasured, "99th percentile of the same over the text's tokens", "as perplexity"},
    {"kl_max", "nats", kNeither, 0, kMeasured, "the largest of them", "as perplexity"},
    {"top1_agreement", "fraction", kHigher, 0.005, kMeasured,
     "share of tokens where both consider the same next token most likely", "as perplexity", nullptr, kHeadline},
    {"greedy_agreement", "number", kHigher, 0.1, kMeasured,
     "greedy tokens after the text before both first choose different ones", "as perplexity, or new is 0"},
    {"sequences", "count", kNeither, 0, kExact, "texts generated side by side, each to its own length",
     "the case does not continue a prompt of its own"},
    {"sequences_ended", "count", kNeither, 0, kExact, "the number of them that a stop id ended", "as sequences"},
    {"first_end_tokens", "count", kNeither, 0, kExact,
     "new tokens of the first one that a stop id ended, including the stop id", "a stop id ended none"},
    {"last_end_tokens", "count", kNeither, 0, kExact, "the same of the last one", "a stop id ended none"},
    {"truncated_tokens", "count", kLower, 0, kExact,
     "first tokens of prompts, left out because the checkpoint has no room for them", "as sequences"},
    {"draft_bytes", "B", kLower, 0.001, kExact, "weights of the model that guesses tokens", "the case has no draft"},
    {"agreed_tokens", "count", kHigher, 0, kExact,
     "new tokens before the text differs from the one without a draft: all, unless rounding decides between two",
     "as draft_bytes"},
    {"tokens_per_pass", "number", kHigher, 0.05, kMeasured,
     "new tokens after the first, over the number of times that the model checked guesses of the draft",
     "as draft_bytes, or no token follows the first"},
    {"acceptance", "fraction", kHigher, 0.05, kMeasured, "share of a draft's guesses that the model would have made",
     "as draft_bytes, or nothing was guessed", nullptr, kHeadline},
    {"speedup", "number", kHigher, 0.05, kMeasured,
     "time of the tokens after the first without a draft, from one earlier run, over the time with it",
     "as tokens_per_pass", nullptr, kHeadline},
    {"pass_ms", "ms", kLower, 0.02, kMeasured, "median time from one check of guesses to the next",
     "as tokens_per_pass"},
    {"pass_p95_ms", "ms", kLower, 0.05, kMeasured, "its 95th percentile",
     "as tokens_per_pass, or fewer than 72 passes"},
    {"pass_p95_ci", "fraction", kLower, 0.5, kMeasured, "half-width of its interval over it, as p95_ci",
     "as pass_p95_ms"},
    {"pass_p99_ms", "ms", kLower, 0.1, kMeasured, "its 99th percentile",
     "as tokens_per_pass, or fewer than 368 passes"},
    {"pass_p99_ci", "fraction", kLower, 0.5, kMeasured, "half-width of its interval over it, as p95_ci",
     "as pass_p99_ms"},
    {"outlier_columns", "count", kNeither, 0, kExact,
     "columns of the activations that LLM.int8() multiplied unquantized; for a model, the mean over the products of "
     "the last token or prompt",
     "the case has no LLM.int8() product, or runs on a GPU whose host does not know them"},
    {"tile_products", "count", kNeither, 0, kMeasured,
     "bf16 products of a step that our own kernel computed by tiles: of registers (Intel AMX) or vectors (AVX-512)",
     "the case is no prefill, decode or training in bf16, the processor has no dot product of bf16, or no product has "
     "2 rows (with registers and in training 8)"},
    {"library_kernels", "count", kNeither, 0, kMeasured,
     "bf16 products, and attentions of a prompt, that LibTorch computed for `fastest`, because it was measured to be "
     "faster for their shapes",
     "as tile_products, or our own kernels were faster"},
    {"max_over_mean_load", "number", kNeither, 0, kExact, "rows of the expert that has most, over the mean of all",
     "the case has no rows of experts"},
    {"overhead_ns", "ns", kLower, 0.1, kMeasured, "cost of the sampler per sample, beyond its clock reads",
     "the case does not time the sampler itself", nullptr, kHeadline},
    {"kernel_ms", "ms", kLower, 0.02, kMeasured,
     "time of the kernels of a step whose launches set its pace: of many steps in one CUDA graph, or of some that are "
     "all launched before the first begins; the time of the row is that between launches",
     "the device sets the pace, or launching some steps takes longer than the device may wait"},
    {"repeated_chunks", "count", kNeither, 0, kMeasured,
     "chunks of samples that were taken again, since the GPU's clock had fallen below three quarters of its usual rate",
     "the case does not run on one GPU"},
    {"untimed_ms", "ms", kNeither, 0, kMeasured,
     "time of what the case prepares before each of its samples, which is in no figure",
     "it prepares nothing, or no longer than it takes to restore what is in its result"},
    {"new_values", "0 or 1", kNeither, 0, kExact,
     "1: each step found new values, since steps were faster with those of the step before: something is kept, or the "
     "processor learns which branches they take",
     "it makes no difference"},
    {"unseen", "fraction", kNeither, 0, kExact,
     "share of the numbers of a result, other than 0, that are so small beside the rest that zeros would pass its check",
     "at most half of the numbers are, or the results were not checked"},
    {"latency_ns", "ns", kLower, 0.02, kMeasured,
     "time of one of the loads, calls, barriers or pages that the step takes one after another",
     "the case does not count them",
     [](const CounterContext& c) -> Value {
       const double count = c.outcome.cost.in_sequence;
       return count > 0 ? Value(c.outcome.summary.median / count * kNanoseconds) : std::nullopt;
     },
     kHeadline},
    {"launch_bound", "0 or 1", kLower, 0, kExact,
     "1: enqueueing takes the host longer than the device needs, or nearly all of the time of a step that waits for "
     "the device",
     "",
     [](const CounterContext& c)
         -> Value { return c.enqueues_ahead && c.outcome.samples.host_enqueue_ratio > kLaunchBound ? 1 : 0; }},
    {"disturbed", "0 or 1", kLower, 0, kExact,
     "1: the case ran above the roof measured with it, its probes disagree, or other programs took most of the "
     "processors; shares of it are left out",
     "", [](const CounterContext& c) -> Value { return c.outcome.disturbed ? 1 : 0; }},
    {"handover_ns", "ns", kNeither, 0, kMeasured,
     "what a cache line takes from one thread to the next, after the samples: threads whose processors share a cache are "
     "nearer, and a virtual machine's change places within minutes",
     "the device is a GPU, or the run has one thread, or more than processors",
     [](const CounterContext& c) -> Value {
       const std::optional<double>& seconds = c.outcome.conditions.handover_seconds;
       return seconds ? Value(*seconds * 1e9) : std::nullopt;
     }},
    {"throttled", "0 or 1", kLower, 0, kExact, "1: the device slowed itself down for heat during the case", "",
     [](const CounterContext& c) -> Value { return c.outcome.conditions.throttled ? 1 : 0; }},
    {"power_capped", "0 or 1", kNeither, 0, kExact,
     "1: the GPU lowered its clock during the case to keep its power limit",
     "a CPU, or a driver that does not report it",
     [](const CounterContext& c) -> Value { return FlagOf(c.outcome.conditions.power_capped); }},
    {"clock_mhz", "MHz", kNeither, 0, kMeasured,
     "clock of the GPU's multiprocessors under load: the median of its own counter at the start of each chunk, or of "
     "the driver's readings",
     "as power_capped", [](const CounterContext& c) { return Scaled(c.outcome.conditions.clock_hertz, 1e-6); }},
    {"power_w", "W", kNeither, 0, kMeasured,
     "power of the GPU under load, the median; gpu_idle_watts is that at the start", "as power_capped",
     [](const CounterContext& c) { return Scaled(c.outcome.conditions.watts, 1); }},
    {"energy_j", "J", kLower, 0.05, kMeasured,
     "energy of a step: of the GPU, or of all packages of the processors with whatever else runs on them",
     "the machine does not count it (most virtual machines), or does not let this user read it (Linux: root); on a "
     "GPU, "
     "whose counter moves every tenth of a second, also with roof probes, or with less than two seconds of samples",
     [](const CounterContext& c) { return c.outcome.joules_per_step; }},
    {"tokens/J", "tokens/J", kHigher, 0.05, kMeasured,
     "tokens of a step, counted like tokens/s, over energy_j, which includes the prompt", "as energy_j, or as tokens/s",
     [](const CounterContext& c) { return Ratio(c.outcome.model.tokens, c.outcome.joules_per_step.value_or(0)); }},
    {"noisy", "0 or 1", kLower, 0, kExact,
     "1: ci above 5 %, chunk medians scattered by more than 10 %, or other programs or the hypervisor took over 5 % of "
     "the processors' time",
     "", [](const CounterContext& c) -> Value { return c.outcome.noise.empty() ? 0 : 1; }},
};

// Not a counter, but named and compared like one.
constexpr CounterSpec kTime = {"time", "s", kLower, 0.01, true, "time of a step: the median of its samples"};

nlohmann::ordered_json CounterJson(const CounterSpec& spec) {
  return {{"name", std::string(spec.name)},
          {"unit", std::string(spec.unit)},
          {"better", std::string(Name(spec.better))},
          {"threshold", spec.threshold},
          {"noisy", spec.noisy},
          {"headline", spec.headline},
          {"meaning", std::string(spec.doc)},
          {"absent", std::string(spec.absent)}};
}

}  // namespace

std::string_view Name(Verdict verdict) {
  constexpr std::string_view kNames[] = {"measured", "skipped", "failed", "interrupted"};
  return kNames[static_cast<int>(verdict)];
}

std::string_view Name(Better better) {
  constexpr std::string_view kNames[] = {"higher", "lower", "neither"};
  return kNames[static_cast<int>(better)];
}

std::span<const CounterSpec> CounterTable() { return kTable; }

double TakenShare(const hardware::MeasuredConditions& conditions) {
  return conditions.others_share + conditions.stolen_share;
}

bool WasBesideOthers(const hardware::MeasuredConditions& conditions) { return TakenShare(conditions) > kNoisyShare; }

std::vector<std::string> NoiseOf(const Outcome& outcome) {
  std::vector<double> medians;
  for (const timing::Chunk& chunk : outcome.samples.chunks) medians.push_back(chunk.median_seconds);
  std::vector<std::string> reasons;
  if (outcome.summary.ci > kNoisyInterval) reasons.emplace_back("ci");
  if (medians.size() >= 3 && timing::RobustDeviation(medians) > kNoisyChunks * timing::Median(medians)) {
    reasons.emplace_back("drift");
  }
  const hardware::MeasuredConditions& conditions = outcome.conditions;
  if (WasBesideOthers(conditions)) {
    reasons.emplace_back(conditions.stolen_share > conditions.others_share ? "stolen" : "others");
  }
  if (conditions.moved) reasons.emplace_back("moved");
  return reasons;
}

std::vector<std::pair<std::string, std::string>> NoiseReasons() {
  const auto percent = [](double share) { return absl::StrCat(100 * share, " %"); };
  return {
      {"ci", absl::StrCat("the interval of the median is wider than ", percent(kNoisyInterval))},
      {"drift",
       absl::StrCat("the medians of successive chunks of samples differ by more than ", percent(kNoisyChunks))},
      {"others", absl::StrCat("other programs used more than ", percent(kNoisyShare), " of the processors' time")},
      {"stolen", absl::StrCat("the hypervisor took more than ", percent(kNoisyShare), " of the processors' time")},
      {"moved", "the processors changed places: a cache line took another time between threads before the samples"}};
}

bool IsFigure(double value) { return std::abs(value) <= 1e100; }

std::vector<CounterValue> ComputeCounters(const CounterContext& context) {
  std::vector<CounterValue> counters;
  const auto add = [&](std::string name, double value) {
    if (IsFigure(value)) counters.emplace_back(std::move(name), value);
  };
  const Outcome& outcome = context.outcome;
  for (const CounterSpec& spec : kTable) {
    if (spec.value != nullptr) {
      const Value value = spec.value(context);
      if (!value) continue;
      add(absl::StrReplaceAll(View(spec.name), {{"<ref>", View(context.reference.prefix)}}), *value);
    } else if (spec.name == "<phase>_ms") {
      for (std::size_t i = 0; i < outcome.phases.size(); ++i) {
        const timing::Summary phase = timing::Summarize(outcome.samples.phase_seconds[i]);
        const std::string& name = outcome.phases[i];
        add(absl::StrCat(name, "_ms"), phase.median * kMilliseconds);
        add(absl::StrCat(name, "_mean_ms"), phase.mean * kMilliseconds);
        add(absl::StrCat(name, "_stddev_ms"), phase.stddev * kMilliseconds);
        const std::span<const double> seconds = outcome.samples.phase_seconds[i];
        if (const Value p95 = OfP95(seconds, &timing::BoundedQuantile::value, kMilliseconds); p95) {
          add(absl::StrCat(name, "_p95_ms"), *p95);
        }
      }
    } else if (spec.name == "<phase>_roof") {
      for (std::size_t i = 0; i < outcome.phase_roofs.size(); ++i) {
        if (outcome.disturbed || outcome.phase_roofs[i] <= 0) continue;
        add(absl::StrCat(outcome.phases[i], "_roof"), outcome.phase_roofs[i]);
      }
    } else {
      for (const auto& [name, value] : outcome.figures) {
        if (IsRowOf(spec.name, name)) add(name, value);
      }
    }
  }
  return counters;
}

std::string ExplainCounters() {
  std::string text = absl::StrFormat("%-18s %-9s %-8s %s\n", "counter", "unit", "better", "meaning");
  for (const CounterSpec& spec : kTable) {
    absl::StrAppendFormat(&text, "%-18s %-9s %-8s %s\n", View(spec.name), View(spec.unit), View(Name(spec.better)),
                          View(spec.doc));
    if (spec.absent.empty()) continue;
    absl::StrAppendFormat(&text, "%-18s %-9s %-8s absent: %s\n", "", "", "", View(spec.absent));
  }
  absl::StrAppend(
      &text,
      "<ref> is the prefix of --reference (a100 by default); <phase> the name of a phase; <component> parameter,\n"
      "gradient, optimizer or activation.\n",
      "Never NaN, infinity or beyond 1e100: a counter that cannot be computed is left out.\n");
  return text;
}

nlohmann::ordered_json ContractOf(nlohmann::ordered_json families) {
  nlohmann::ordered_json contract = {
      {"schema", "roofbench-contract-1"}, {"version", 1}, {"families", std::move(families)}};
  auto& counters = contract["counters"] = nlohmann::ordered_json::array({CounterJson(kTime)});
  for (const CounterSpec& spec : CounterTable()) counters.push_back(CounterJson(spec));
  return contract;
}

}  // namespace roofbench
