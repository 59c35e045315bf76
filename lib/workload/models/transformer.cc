// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/transformer.h"

#include <algorithm>

#include "lib/workload/operators/elementwise.h"
#include "lib/workload/operators/products.h"
#include "lib/workload/operators/rows.h"

namespace roofbench::workload {

TransformerParameters Transformer::Parameters() const {
  TransformerParameters count{
      .embedding = vocab * d_model,
      .attention = layers * (2 * d_model * QueryWidth() + 2 * d_model * KvWidth()),
      .feed_forward = layers * 3 * d_model * d_ff,
      .norms = (2 * layers + 1) * d_model,
      .head = tied_head ? 0 : vocab * d_model,
  };
  count.matmul = count.attention + count.feed_forward + vocab * d_model;
  return count;
}

std::optional<Transformer> FindTransformer(std::string_view name) {
  for (const TransformerPreset& preset : kTransformerPresets) {
    if (preset.name == name) return preset.shape;
  }
  return std::nullopt;
}

namespace {

constexpr double kIndexBytes = 8;       // a token's number
constexpr double kStatisticsBytes = 4;  // row statistics are fp32 whatever the storage

// Nominal arithmetic of element-wise work, in fp32, as in the operators; its bytes decide.
constexpr double kNormFlops = FlopsPerElement(NormKind::kRms);
constexpr double kSgdFlops = 2;
constexpr double kMeanFlops = 1;

// Work on `elements` that is bound by its traffic; bytes are per element.
struct PerElement {
  double flops = 0;
  double read = 0;
  double written = 0;
  double updated = 0;
};

Operation ElementWise(double elements, const PerElement& each, double repeat = 1) {
  return Operation{.bytes_read = elements * each.read,
                   .bytes_written = elements * each.written,
                   .bytes_updated = elements * each.updated,
                   .repeat = repeat}
      .WithFlops(Dtype::kFp32, elements * each.flops);
}

// One kind of linear layer: `count` products of [tokens, in] by [in, out].
struct LinearLayer {
  double in;
  double out;
  double count;
};

// q and output projection, k and v, gate and up, down, head.
std::array<LinearLayer, 5> LinearLayers(const Transformer& shape) {
  return {{{shape.d_model, shape.QueryWidth(), 2 * shape.layers},
           {shape.d_model, shape.KvWidth(), 2 * shape.layers},
           {shape.d_model, shape.d_ff, 2 * shape.layers},
           {shape.d_ff, shape.d_model, shape.layers},
           {shape.d_model, shape.vocab, 1}}};
}

// Pairs of a query and a key that are multiplied, per head.
double Pairs(const TransformerTraining& training) {
  const double context = training.context;
  const bool skips = training.attention == AttentionKind::kFused;
  return training.batch * (skips ? context * (context + 1) / 2 : context * context);
}

double AttentionFlops(const TransformerTraining& training) {
  const Transformer& shape = training.shape;
  return 4 * Pairs(training) * shape.layers * shape.heads * shape.HeadDim();
}

// `products` products of attention in one layer: q·kᵀ and p·v forward, four of them backward.
Operation AttentionProducts(const TransformerTraining& training, double products, double bytes_read,
                            double bytes_written) {
  return Operation{.bytes_read = bytes_read, .bytes_written = bytes_written, .repeat = training.shape.layers}.WithFlops(
      training.compute, AttentionFlops(training) / training.shape.layers * products / 2);
}

// The loss, element by element of the logits: forward reads them, and backward writes their gradient, computed from
// them or, for the mean, without reading.
PerElement LossForward(const TransformerTraining& training) {
  const double flops = training.loss == LossKind::kMeanLogit ? kMeanFlops : Softmax::kFlops;
  return {.flops = flops, .read = ElementBytes(training.compute)};
}
PerElement LossBackward(const TransformerTraining& training) {
  const double act = ElementBytes(training.compute);
  if (training.loss == LossKind::kMeanLogit) return {.written = act};
  return {.flops = Softmax::kFlops, .read = act, .written = act};
}

// Elements of the tensors of a step.
struct Elements {
  double d, q, kv, f, v;  // the features of all tokens, and their logits
  double scores;          // of a layer
};
Elements ElementsOf(const TransformerTraining& training) {
  const Transformer& shape = training.shape;
  const double tokens = training.Tokens();
  return {.d = shape.d_model * tokens,
          .q = shape.QueryWidth() * tokens,
          .kv = shape.KvWidth() * tokens,
          .f = shape.d_ff * tokens,
          .v = shape.vocab * tokens,
          .scores = training.batch * training.context * training.context * shape.heads};
}

// The peak of live bytes in addition to the parameters while forward runs and keeps nothing for backward: in a layer,
// at the logits of the head, or in the loss.
double ForwardPeak(const TransformerTraining& training, double packed) {
  const Transformer& shape = training.shape;
  const bool native = training.implementation == TrainingImplementation::kNative;
  const double stream = ElementBytes(training.storage);
  const double act = ElementBytes(training.compute);
  const auto [d, q, kv, f, v, scores] = ElementsOf(training);
  // The output of a norm: LibTorch leaves the cast to the product.
  const double normed = d * (native ? act : stream);
  // Parameters without a gradient are cast again by each product.
  const double cast_bytes = training.IsMixed() ? shape.d_model * act : 0;
  // The stream, its norm, q, k and v before and after rotation, and the result. Our attention leaves v as it is, and
  // holds keys and values once more; the naive one holds all scores, masked, and their softmax.
  const double held = training.attention == AttentionKind::kNaive ? 3 * scores : native ? d : 0;
  const double attention = d * stream + normed + (6 * d + held) * act + (native ? d * act : 0);
  // The stream before and after attention, both norms, the output of attention; gate, up and their product, and in
  // LibTorch also the activation between, or the weight of the product that makes up.
  const double gated = std::max((native ? 3 : 4) * f * act, 2 * f * act + shape.d_ff * cast_bytes + packed);
  const double feed_forward = 2 * d * stream + 2 * normed + d * act + gated;
  // The sum that ends a block: under autocast LibTorch first casts the feed-forward output to the stream's type.
  const double sum = training.IsMixed() ? 4 * d * stream + (4 * d + f) * act : 0;
  const double head = d * stream + normed + v * act + shape.vocab * cast_bytes + packed;
  // LibTorch computes the loss under autocast from an fp32 copy of the logits, and writes the log-probabilities.
  const bool takes_logits_alone = native || training.loss == LossKind::kMeanLogit;
  const double loss = takes_logits_alone ? v * act : training.IsMixed() ? v * (act + 2 * stream) : 2 * v * act;
  return std::max({attention, feed_forward, sum, head, loss});
}

}  // namespace

double TransformerTraining::ForwardMatmulFlops() const {
  return 2 * Tokens() * shape.Parameters().matmul + AttentionFlops(*this);
}

workload::Cost TransformerTraining::Forward() const {
  const double tokens = Tokens();
  const double stream = ElementBytes(storage);  // of the residual stream
  const double act = ElementBytes(compute);     // of the products' inputs and outputs
  const double scores = Pairs(*this) * shape.heads;
  workload::Cost cost;
  auto& operations = cost.operations;
  for (const auto& [in, out, count] : LinearLayers(shape)) {
    Operation product = Gemm{.m = tokens, .n = out, .k = in, .dtype = compute}.Forward();
    product.repeat = count;
    operations.push_back(product);
    if (IsMixed()) operations.push_back(ElementWise(in * out, {.read = stream, .written = act}, count));
  }
  operations.push_back(ElementWise(tokens * shape.d_model, {.read = stream, .written = stream}));  // embedding
  operations.push_back(ElementWise(tokens * shape.d_model, {kNormFlops, stream, act}, 2 * shape.layers + 1));  // norms
  operations.push_back(ElementWise(tokens * (shape.QueryWidth() + shape.KvWidth()), {Rope::kFlops, act, act},
                                   shape.layers));  // RoPE
  const double qkvo = tokens * (2 * shape.QueryWidth() + 2 * shape.KvWidth()) * act;
  const double score = attention == AttentionKind::kNaive ? act : 0;  // bytes of one in memory
  operations.push_back(AttentionProducts(*this, 2, qkvo * 3 / 4 + scores * score, qkvo / 4 + scores * score));
  operations.push_back(ElementWise(scores, {Softmax::kFlops, score, score}, shape.layers));
  operations.push_back(ElementWise(tokens * shape.d_ff, {SiluMul::kFlops, 2 * act, act}, shape.layers));
  operations.push_back(ElementWise(tokens * shape.d_model, {1, act, 0, stream}, 2 * shape.layers));  // residual sums
  operations.push_back(ElementWise(tokens * shape.vocab, LossForward(*this)));
  return cost;
}

workload::Cost TransformerTraining::Backward() const {
  const double tokens = Tokens();
  const double stream = ElementBytes(storage);
  const double act = ElementBytes(compute);
  const double scores = Pairs(*this) * shape.heads;
  workload::Cost cost;
  auto& operations = cost.operations;
  for (const auto& [in, out, count] : LinearLayers(shape)) {
    for (Operation product : Gemm{.m = tokens, .n = out, .k = in, .dtype = compute}.Backward()) {
      product.repeat = count;
      operations.push_back(product);
    }
    // The gradient of a weight under autocast is a bf16 product, stored as fp32.
    if (IsMixed()) operations.push_back(ElementWise(in * out, {.read = act, .written = stream}, count));
  }
  operations.push_back(ElementWise(tokens * shape.vocab, LossBackward(*this)));
  operations.push_back(
      ElementWise(tokens * shape.d_model, {2 * kNormFlops, stream + act, stream}, 2 * shape.layers + 1));
  operations.push_back(
      ElementWise(tokens * (shape.QueryWidth() + shape.KvWidth()), {Rope::kFlops, act, act}, shape.layers));
  const double qkvo = tokens * (2 * shape.QueryWidth() + 2 * shape.KvWidth()) * act;
  const double score = attention == AttentionKind::kNaive ? act : 0;  // bytes of one in memory
  const double read = score > 0 ? qkvo : qkvo * 5 / 4;                // the fused one reads its result, too
  operations.push_back(AttentionProducts(*this, 4, read + 2 * scores * score, qkvo * 3 / 4 + scores * score));
  operations.push_back(ElementWise(scores, {Softmax::kFlops, 2 * score, score}, shape.layers));
  operations.push_back(ElementWise(tokens * shape.d_ff, {2 * SiluMul::kFlops, 3 * act, 2 * act}, shape.layers));
  operations.push_back(ElementWise(tokens * shape.d_model, {1, stream, 0, stream}, 2 * shape.layers));
  // The embedding's gradient is dense: every row is written, most of them with zeros.
  operations.push_back(ElementWise(shape.vocab * shape.d_model, {.written = stream}));
  operations.push_back(ElementWise(tokens * shape.d_model, {1, stream, 0, stream}));
  return cost;
}

workload::Cost TransformerTraining::Optimizer() const {
  const double bytes = ElementBytes(storage);
  const PerElement each{
      .flops = HasMoments() ? AdamW::kFlops : kSgdFlops, .read = bytes, .updated = (HasMoments() ? 3 : 1) * bytes};
  return {.operations = {ElementWise(shape.Parameters().Total(), each)}};
}

workload::Cost TransformerTraining::Step(TrainingMode mode) const {
  workload::Cost cost = Forward();
  if (mode >= TrainingMode::kForwardBackward) cost += Backward();
  if (mode >= TrainingMode::kStep) cost += Optimizer();
  cost.resident_bytes = Memory(mode).peak;
  return cost;
}

double TransformerTraining::PalmFlops(TrainingMode mode) const {
  const double forward = Tokens() * (2 * shape.Parameters().Total() + 4 * shape.layers * shape.QueryWidth() * context);
  return mode < TrainingMode::kForwardBackward ? forward : 3 * forward;
}

double TransformerTraining::PackedBytes() const {
  const bool packs = tiles && implementation == TrainingImplementation::kNative && compute == Dtype::kBf16;
  return packs ? ElementsOf(*this).d * ElementBytes(compute) : 0;
}

TransformerTraining::Kept TransformerTraining::KeptBytes() const {
  const double tokens = Tokens();
  const double stream = ElementBytes(storage);
  const double act = ElementBytes(compute);
  const auto [d, q, kv, f, v, scores] = ElementsOf(*this);
  // For each of its two norms, a block keeps the input and a statistic per row, and LibTorch also the normalized rows,
  // both in fp32 where the norm is composed. The products that read the scaled rows keep them once, but under autocast
  // LibTorch rounds them again for each of the five. Attention keeps queries, keys, values and its result twice (before
  // and after merging the heads; ours once), with a statistic per query, or the scores; the gate keeps gate, up and
  // their product, and LibTorch also the activation between.
  const bool native = implementation == TrainingImplementation::kNative;
  const double scaled = native ? 2 * d * act : IsMixed() ? 5 * d * act : 2 * d * stream;
  const double normed = native ? d * stream : composed_norms ? 2 * d * ElementBytes(Dtype::kFp32) : 2 * d * stream;
  const double norms = 2 * (normed + tokens * kStatisticsBytes) + scaled;
  const double attended = attention == AttentionKind::kNaive
                              ? (2 * q + 2 * kv + scores) * act
                              : ((native ? 2 : 3) * q + 2 * kv) * act + tokens * shape.heads * kStatisticsBytes;
  const double gated = (native ? 3 : 4) * f * act;
  // For the loss, LibTorch keeps the log-probabilities (in fp32 under autocast), and our version the gradient of the
  // logits instead. The mean does not need its logits.
  const double logits = loss == LossKind::kMeanLogit ? 0 : v * (native ? act : stream);
  return {.layer = norms + attended + gated, .gate = gated, .head = normed + d * act, .logits = logits};
}

double TransformerTraining::LossGradients() const {
  const double v = ElementsOf(*this).v;
  return loss == LossKind::kMeanLogit ? v * ElementBytes(compute) : 2 * v * ElementBytes(storage);
}

TrainingMemory TransformerTraining::Memory(TrainingMode mode) const {
  const double count = shape.Parameters().Total();
  const double stream = ElementBytes(storage);
  const double act = ElementBytes(compute);
  const auto [d, q, kv, f, v, scores] = ElementsOf(*this);
  TrainingMemory memory{.parameters = count * stream};
  // A low-precision copy of the weights, while autocast caches them.
  const double casts = IsMixed() ? shape.Parameters().matmul * act : 0;
  if (mode == TrainingMode::kInference) {
    memory.peak = memory.parameters + ForwardPeak(*this, PackedBytes());
    return memory;
  }
  if (mode >= TrainingMode::kForwardBackward) memory.gradients = count * stream;
  if (mode == TrainingMode::kStep && HasMoments()) memory.optimizer = 2 * count * stream;
  const bool native = implementation == TrainingImplementation::kNative;
  const bool mean = loss == LossKind::kMeanLogit;
  const Kept kept = KeptBytes();
  const double gated = kept.gate;
  const double head = kept.head + kept.logits;
  memory.activations = casts + shape.layers * kept.layer + head;
  if (mode == TrainingMode::kForward) {
    // LibTorch computes the loss while the logits are live, under autocast with an fp32 copy.
    const double logits = mean ? v * act : native ? PackedBytes() : v * (act + (IsMixed() ? stream : 0));
    // The naive attention of the last layer holds its scores three times and keeps one of them.
    const double attends =
        attention == AttentionKind::kNaive ? memory.activations - head - gated + 2 * scores * act : 0;
    memory.peak = memory.parameters + std::max(memory.activations + logits, attends);
    return memory;
  }
  // Backward begins with all activations and LibTorch's gradients of log-probabilities and logits, or our gradient of
  // the head (under autocast by LibTorch's product also in its precision) and an fp32 transposed copy of that of the
  // logits. It ends with all gradients.
  const double packed = PackedBytes();
  const double head_gradient = shape.vocab * shape.d_model * (stream + (IsMixed() && packed == 0 ? act : 0)) + packed;
  const double turned = compute == Dtype::kBf16 ? 0 : v * act;
  const double begins = memory.activations + (native ? head_gradient + turned : LossGradients());
  const double ends = memory.gradients + 2 * d * stream;
  const bool divides = mode == TrainingMode::kStep && optimizer == OptimizerKind::kAdamWForeach;
  const double updates = memory.gradients + (divides ? memory.parameters : 0);
  // Our attention holds in backward the gradients of its result, of q, k and v, and queries and the first of these
  // twice more, plus an fp32 gradient of the queries. The last layer does so while all others keep theirs.
  double attends = 0;
  if (native && attention != AttentionKind::kNaive) {
    const double layer_gradients = shape.d_model * (3 * shape.d_ff + shape.QueryWidth()) * stream;
    attends = memory.activations - head - gated + shape.vocab * shape.d_model * stream + layer_gradients +
              (6 * q + 2 * kv) * act + q * ElementBytes(Dtype::kFp32) + d * stream;
  }
  memory.peak = memory.parameters + memory.optimizer + std::max({begins, attends, ends, updates});
  return memory;
}

std::vector<StepUnit> TransformerTraining::Units() const {
  const double bytes = ElementBytes(storage);
  const Elements n = ElementsOf(*this);
  const double d = n.d * bytes;
  const double table = shape.vocab * shape.d_model * bytes;
  const TransformerParameters all = shape.Parameters();
  const double norm = shape.d_model * bytes;
  const double layer = (all.attention + all.feed_forward) / shape.layers * bytes + 2 * norm;
  const double query = shape.QueryWidth() * norm;
  const double key = shape.KvWidth() * norm;
  const double gate = shape.d_ff * norm;
  // Under autocast, weights are kept in the type of the products.
  const double cast = IsMixed() ? ElementBytes(compute) / bytes : 0;
  const Kept kept = KeptBytes();
  // The most of a layer: all that it keeps, the gradients of its result, of the gate's product and of one factor, and
  // of the last weight. When the gradient of its first norm is complete: those of the residual and of the normalized
  // rows, and these.
  std::vector<StepUnit> units(static_cast<std::size_t>(shape.layers),
                              {.parameters = layer,
                               .kept = kept.layer + cast * (layer - 2 * norm),
                               .computes = kept.layer + d + 2 * n.f * bytes + gate,
                               .passes = 3 * d,
                               .gradients = {norm, query, key, key, query, norm, gate, gate, gate}});
  units.insert(units.begin(), {.parameters = table, .computes = table + d, .passes = d, .gradients = {table}});
  units.push_back({.parameters = table + norm,
                   .kept = kept.head + cast * table,
                   .computes = kept.head + n.v * bytes + d + table,
                   .passes = 2 * d,
                   .gradients = {norm, table}});
  return units;
}

double TransformerTraining::ShardedPeak(double ranks) const {
  const TrainingMemory memory = Memory(TrainingMode::kStep);
  return (memory.parameters + memory.optimizer) / ranks +
         workload::ShardedPeak(Units(), ranks, KeptBytes().logits + LossGradients());
}

}  // namespace roofbench::workload
