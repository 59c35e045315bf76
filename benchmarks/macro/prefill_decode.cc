// The two halves of a generation alone: a prompt into an empty cache, and one token of each sequence at a depth of the
// cache. Its parts are phases; in precision:llm_int8 the stages of its products are.

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "benchmarks/macro/language_model.h"

namespace roofbench {
namespace {

using models::LlmInt8Stage;
using workload::DecoderPart;

// The step with its parts as phases, or the stages of LLM.int8() where its model is one. `waits`: its threads wait for
// each other. That costs a read of the clock for each of some hundred ends, of LLM.int8() up to three for each part of
// a product. On a GPU each would be an event of microseconds, so that parts are told on processors alone.
void SetStep(const Point& at, const Device& device, const std::shared_ptr<models::Decoder>& decoder, bool waits,
             std::function<void()> step, Case& built) {
  if (at.Text("precision") != Name(workload::WeightFormat::kLlmInt8)) {
    if (device.kind() != "cpu") {
      built.step = std::move(step);
      return;
    }
    std::array<int, workload::kDecoderPartNames.size()> phase_of{};
    for (std::size_t part = 0; part < phase_of.size(); ++part) {
      const bool exists = part == static_cast<std::size_t>(DecoderPart::kWait)     ? waits
                          : part == static_cast<std::size_t>(DecoderPart::kRouter) ? StoredAt(at).shape.IsMixture()
                                                                                   : true;
      if (!exists) continue;
      phase_of[part] = static_cast<int>(built.phases.size());
      built.phases.emplace_back(workload::kDecoderPartNames[part]);
    }
    built.step = [=](timing::PhaseMarker& marker) {
      decoder->ObserveParts([&](DecoderPart part) { marker.End(phase_of[static_cast<std::size_t>(part)]); });
      step();
      decoder->ObserveParts(nullptr);
    };
    return;
  }
  for (const std::string_view name : models::kLlmInt8StageNames) built.phases.emplace_back(name);
  built.step = [=](timing::PhaseMarker& marker) {
    decoder->ObserveStages([&marker](LlmInt8Stage stage) { marker.End(static_cast<int>(stage)); });
    step();
    decoder->ObserveStages(nullptr);
    marker.End(static_cast<int>(LlmInt8Stage::kOther));
  };
}

absl::StatusOr<Case> BuildPrefill(const Point& at, Inputs& in) {
  const auto model = ModelAt(at, in.device());
  if (!model.ok()) return model.status();
  const int64_t prompt = at.Int("prompt");
  const auto decoder = DecoderAt(at, **model, prompt, in.device());
  if (!decoder.ok()) return decoder.status();
  const auto vocab = static_cast<int64_t>((*model)->weights.config.shape.base.vocab);
  const at::Tensor tokens = in.Integers(0, vocab, {at.Int("batch"), prompt});
  const auto logits = std::make_shared<at::Tensor>();
  Case built{.result = [=] { return std::vector{*logits}; },
             .reference = [=, model = *model] { return std::vector{ExactLogits(*model, tokens)}; },
             .model = {.prompt_tokens = at.Number("batch") * at.Number("prompt")}};
  SetStep(
      at, in.device(), *decoder, /*waits=*/false,
      [=, decoder = *decoder] {
        decoder->Truncate(0);
        *logits = decoder->Append(tokens);
      },
      built);
  DescribeModel(**model, built);
  return built;
}

const Registration kPrefillFamily(
    LanguageModelFamily("prefill", "reads a prompt: from an empty cache to the logits of its last token")
        .Axis({.name = "prompt", .doc = "tokens of a prompt"})
        .Grid(Suite::kStandard, {{"impl", {"eager"}},
                                 {"model", {"llama3_1b_4th"}},
                                 {"precision", {"fp32", "bf16", "int8", "llm_int8"}},
                                 {"prompt", {"128", "512"}}})
        .Grid(Suite::kFull, {{"impl", {"eager"}},
                             {"model", {"llama3_1b", "llama2_7b"}},
                             {"precision", {"bf16", "int8"}},
                             {"prompt", {"512", "2048"}}})
        .ExpectLaw("prompt", 1)
        .Supports([](const Point& at, const Device& device) {
          if (at.Text("impl") == "graph") {
            return absl::UnimplementedError("a graph is recorded of single tokens; impl:eager is what reads a prompt");
          }
          return LanguageModelSupports(at, device);
        })
        .Cost([](const Point& at) {
          return StoredAt(at).PrefillCost(at.Number("batch"), at.Number("prompt"), at.Number("prompt"));
        })
        .Build(BuildPrefill));

// A depth that no prompt has to be read for: the cache holds random keys and values. The result is checked at depth 1
// to 16 beside it, where the reference can read the tokens.
absl::StatusOr<Case> BuildDecode(const Point& at, Inputs& in) {
  const auto model = ModelAt(at, in.device());
  if (!model.ok()) return model.status();
  const int64_t depth = at.Int("depth");
  const int64_t batch = at.Int("batch");
  const auto decoder = DecoderAt(at, **model, depth + 1, in.device());
  if (!decoder.ok()) return decoder.status();
  const auto vocab = static_cast<int64_t>((*model)->weights.config.shape.base.vocab);
  const int64_t checked = std::min<int64_t>(depth, 16);
  const at::Tensor tokens = in.Integers(0, vocab, {batch, checked + 1});
  const at::Tensor last = tokens.select(1, checked).to(at::kCPU).contiguous();
  constexpr uint64_t kCacheSeed = 7;
  (*decoder)->FillRandom(depth, kCacheSeed);
  Case built{.result =
                 [=, decoder = *decoder] {
                   decoder->Truncate(0);
                   decoder->Append(tokens.narrow(1, 0, checked).contiguous());
                   const std::vector result{decoder->AppendOne(last.data_ptr<int64_t>()).clone()};
                   decoder->FillRandom(depth, kCacheSeed);
                   return result;
                 },
             .reference = [=, model = *model] { return std::vector{ExactLogits(*model, tokens)}; },
             .model = {.tokens = at.Number("batch"),
                       .token_bytes = StoredAt(at).DecodeReadBytes(at.Number("batch"), at.Number("depth"), 2)}};
  SetStep(
      at, in.device(), *decoder, /*waits=*/at.Text("impl") == "native",
      [=, decoder = *decoder] {
        decoder->Truncate(depth);
        decoder->AppendOne(last.data_ptr<int64_t>());
      },
      built);
  DescribeModel(**model, built);
  return built;
}

const Registration kDecodeFamily(
    LanguageModelFamily("decode", "one more token of each sequence, at a depth of the cache")
        .Axis({.name = "depth", .doc = "tokens in the cache before"})
        .Grid(Suite::kStandard, {{"impl", {"eager", "native"}},
                                 {"model", {"llama3_1b"}},
                                 {"precision", {"bf16", "int8"}},
                                 {"depth", {"128"}}})
        .Grid(Suite::kStandard, {{"model", {"llama3_1b"}}, {"precision", {"int4", "llm_int8"}}, {"depth", {"128"}}})
        .Grid(Suite::kFull, {{"impl", {"eager", "graph"}},
                             {"model", {"llama3_1b"}},
                             {"precision", {"bf16", "int8"}},
                             {"depth", {"128", "2048"}}})
        .Grid(Suite::kFull, {{"model", {"llama3_1b"}},
                             {"precision", {"bf16", "int8"}},
                             {"batch", {"1", "8"}},
                             {"depth", {"1", "512", "2048", "8192", "32768"}}})
        .Supports(LanguageModelSupports)
        .Cost([](const Point& at) {
          return StoredAt(at).DecodeCost(at.Number("batch"), at.Number("depth"), at.Number("depth") + 1);
        })
        .Build(BuildDecode));

}  // namespace
}  // namespace roofbench
