// SPDX-License-Identifier: Apache-2.0
// The quality of a precision: reads a text token by token with the model of --checkpoint, and compares its predictions
// with those of the checkpoint as stored, in fp32 arithmetic. tools/tokens converts texts to ids.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/macro/generation.h"
#include "benchmarks/macro/given.h"
#include "lib/cli/flags.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/generation/text_score.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

using workload::WeightFormat;

WeightFormat StoredFormat(at::ScalarType type) {
  if (type == at::kBFloat16) return WeightFormat::kBf16;
  return type == at::kHalf ? WeightFormat::kFp16 : WeightFormat::kFp32;
}

// Reads one sequence by the model of --checkpoint, in fp32 arithmetic on the stored weights: the reference for the
// effect of precisions.
class CheckpointReader {
 public:
  // Loads the weights; for up to `capacity` tokens.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(int64_t capacity, const Device& device) {
    const absl::StatusOr<models::Checkpoint>& given = GivenCheckpoint();
    if (!given.ok()) return given.status();
    absl::StatusOr<models::DecoderWeights> weights =
        models::LoadWeights(*given, models::Storage::Default(StoredFormat(given->StoredType())));
    if (!weights.ok()) return weights.status();
    if (absl::Status moved = weights->MoveTo(device.torch_device()); !moved.ok()) return moved;
    return std::unique_ptr<CheckpointReader>(new CheckpointReader(*std::move(weights), capacity));
  }

  // Appends `tokens` [n] and returns the logits [n, vocab] after each, on the host.
  at::Tensor Read(const at::Tensor& tokens) {
    const at::NoGradGuard no_grad;
    return decoder_.AppendAll(tokens.unsqueeze(0).contiguous())[0].to(at::kCPU);
  }

 private:
  CheckpointReader(models::DecoderWeights weights, int64_t capacity)
      : weights_(std::move(weights)), decoder_(weights_, 1, capacity, models::Arithmetic::kExact) {}

  const models::DecoderWeights weights_;
  models::EagerDecoder decoder_;
};

// One text of at least two tokens.
absl::StatusOr<GivenIds::Lists> OneText(const std::string& name, const std::string& given) {
  auto ids = models::ReadTokenIds(name, given);
  if (!ids.ok()) return ids.status();
  if (ids->size() < 2) return absl::InvalidArgumentError(absl::StrCat(name, ": at least 2 tokens are wanted"));
  return GivenIds::Lists{*std::move(ids)};
}

std::string text_ids;

GivenIds& GivenText() {
  static auto* text = new GivenIds("--text_ids", text_ids, OneText);
  return *text;
}

const FlagRegistration kTextFlag(
    {.flags = {{"text_ids", "1,2,3|FILE|-", Text(text_ids),
                "token ids of the text that quality scores: a list, a file, or - for stdin"}},
     .check = [] { return GivenText().Check(); },
     .reads = [](const Point& at) { return at.family() == "quality"; },
     .way_out = "--benchmark_filter='^quality/' selects cases that read it"});

int64_t TextTokens() { return GivenText().Get().ok() ? static_cast<int64_t>(GivenText().Get()->front().size()) : 2; }

Point GenerateAt(const Point& at) {
  return CheckpointPoint(at, 1).With("new", absl::StrCat(TextTokens() + at.Int("new")));
}

absl::Status SupportsText(const Point& at, const Device& device) {
  if (!GivenText().Get().ok()) return GivenText().Get().status();
  return SupportsModel(GenerateAt(at), device);
}

struct Quality {
  LoadedDecoder loaded;
  at::Tensor text;       // [1, n]
  at::Tensor read = {};  // the same on the decoder's device
  at::Tensor y = {};     // the last logits
  int64_t agreed = 0;    // greedy tokens
  models::TextScore score = {};

  ReadTokens Read() const { return {text, 1, loaded.decoder->keys_and_values()}; }

  const at::Tensor& ReadToken(int64_t i) { return y = loaded.decoder->AppendOne(read.select(0, i)); }

  void Run(timing::PhaseMarker& /*marker*/) {
    loaded.decoder->Truncate(0);
    for (int64_t i = 0; i < text.size(1); ++i) ReadToken(i);
  }
};

// Appends the `count` most likely tokens to the text, and returns them [count] on the host.
at::Tensor Continue(Quality& o, int64_t count) {
  std::vector<at::Tensor> tokens;
  for (int64_t i = 0; i < count; ++i) {
    const at::Tensor chosen = o.y.argmax(-1);
    tokens.push_back(chosen.to(at::kCPU));
    if (i + 1 < count) o.y = o.loaded.decoder->AppendOne(chosen);
  }
  return at::cat(tokens);
}

// The number of the decoder's own tokens that the checkpoint would have chosen too; `last` [vocab] has its logits after
// the text.
int64_t AgreedGreedily(Quality& o, int64_t count, const at::Tensor& last, CheckpointReader& reference) {
  if (count == 0) return 0;
  const at::Tensor tokens = Continue(o, count);
  at::Tensor logits = last.unsqueeze(0);
  if (count > 1) logits = at::cat({logits, reference.Read(tokens.narrow(0, 0, count - 1))});
  return models::AgreedTokens(tokens, logits);
}

absl::StatusOr<Quality> QualityAt(const Point& at, Inputs& in) {
  const at::NoGradGuard no_grad;
  const int64_t count = at.Int("new");
  const models::TokenIds& ids = GivenText().Get()->front();
  const auto length = static_cast<int64_t>(ids.size());
  auto loaded = DecoderAt(GenerateAt(at), length + count, in);
  if (!loaded.ok()) return loaded.status();
  const absl::StatusOr<std::unique_ptr<CheckpointReader>> reference =
      CheckpointReader::Open(length + count, in.device());
  if (!reference.ok()) return reference.status();
  Quality made{.loaded = *std::move(loaded), .text = at::tensor(ids, at::kLong).unsqueeze(0)};
  made.read = made.text.t().contiguous().to(in.device().torch_device());
  const at::Tensor expected = (*reference)->Read(made.text[0]);
  models::TextScorer scorer(made.text[0], expected);
  for (int64_t i = 0; i < length; ++i) scorer.Add(made.ReadToken(i)[0].to(at::kCPU));
  made.score = scorer.Score();
  made.agreed = AgreedGreedily(made, count, expected[length - 1], **reference);
  return made;
}

void Describe(const Point& at, const std::shared_ptr<Quality>& o, Case& built) {
  DescribeModel(*o->loaded.model, built);
  const auto length = static_cast<double>(o->text.size(1));
  built.model = {.tokens = length, .token_bytes = StoredAt(GenerateAt(at)).DecodeReadBytes(1, 0, length + 1)};
  const models::TextScore& score = o->score;
  built.AddFigure("perplexity", score.perplexity);
  built.AddFigure("perplexity_change", score.perplexity / score.reference_perplexity - 1);
  built.AddFigure("kl_mean", timing::Mean(score.divergences));
  built.AddFigure("kl_p99", timing::Quantile(score.divergences, 0.99));
  built.AddFigure("kl_max", timing::Quantile(score.divergences, 1));
  built.AddFigure("top1_agreement", score.top1_agreement);
  if (at.Int("new") > 0) built.AddFigure("greedy_agreement", static_cast<double>(o->agreed));
}

const Registration kQuality =
    TokenFamily<Quality>("quality", "reads the text of --text_ids by the model of --checkpoint, and scores it",
                         GenerateAt)
        .Axes(StorageAxes())
        .Axes({{.name = "new", .doc = "greedy tokens after the text, to be compared with the checkpoint's own"}})
        .Supports(SupportsText)
        .PredictAs(GenerateAt)
        .Work([](const Point& at) {
          const auto length = static_cast<double>(TextTokens());
          return StoredAt(GenerateAt(at)).TokensCost(1, 0, length, length + at.Number("new"));
        })
        .Operands(QualityAt)
        .Reference([](const Quality& o) { return ExactLogits(*o.loaded.model, o.Read()); })
        .Rounded([](const Quality& o) { return RoundedLogits(*o.loaded.model, o.Read()); })
        .Details(Describe)
        .Points(Suite::kFull, {{"impl", {"eager"}}, {"precision", {"fp8"}}, {"new", {64}}})
        .Points(Suite::kFull, {{"precision", {"int8", "int4"}}, {"activations", {"int8"}}, {"new", {64}}})
        .Points(Suite::kFull, {{"precision", {"fp32", "bf16", "fp16", "int8", "int4", "llm_int8"}}, {"new", {64}}});

}  // namespace
}  // namespace roofbench
