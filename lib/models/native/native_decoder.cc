// SPDX-License-Identifier: Apache-2.0
// The decoder by our kernels. A prompt uses our attention, rotations, norms, gates and products of integers, by tiles
// also those in bf16 by weights in bf16, int8 and int4, and LibTorch's others. One or a few tokens of each sequence are
// one parallel region, without allocations, with four barriers in each layer.

#include "lib/models/native/native_decoder.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/aten/attention.h"
#include "lib/aten/elements.h"
#include "lib/aten/products.h"
#include "lib/aten/row_operations.h"
#include "lib/kernels/operators/attention/decode_attention.h"
#include "lib/kernels/operators/elementwise/activations.h"
#include "lib/kernels/operators/products/gemv.h"
#include "lib/kernels/operators/products/stored_rows.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/models/decoding/blocks.h"
#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/native/native_step.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {
namespace {

using kernels::Bf16;
using kernels::Range;
using kernels::SerialFor;
using kernels::Worker;
using workload::DecoderComponent;

// T: the type of vectors in products, and of the cache.
template <typename T>
class NativeDecoder final : public DecoderModel {
  static constexpr bool kTakesTiles = std::is_same_v<T, Bf16>;

 public:
  NativeDecoder(const DecoderWeights& weights, const DecoderRoom& room, int threads, ForwardHooks& hooks)
      : weights_(weights),
        is_mixture_(weights.config.shape.IsMixture()),
        batch_(room.batch),
        n_(weights.config.shape, room.batch * room.piece),
        pool_(threads),
        eager_(weights, room.batch, room.capacity),
        prompt_attention_(static_cast<float>(weights.config.ScoreScale()),
                          static_cast<float>(weights.config.score_cap)),
        products_({.products = n_.layers * (2 + 2 * n_.experts) + 1,
                   .vectors = n_.tokens,
                   .widest = std::max({n_.d, n_.ff, n_.heads * n_.dim})},
                  weights.storage.outlier_threshold, room.tiles, threads),
        by_tiles_(room.tiles),
        choice_(kTakesTiles && room.tiles != nullptr && &hooks == &NoHooks() ? room.choice : nullptr),
        final_norm_(Fp32(weights.final_norm)),
        logits_(at::zeros({n_.tokens, n_.vocab}, at::kFloat)),
        residual_(n_.tokens, n_.d, static_cast<float>(weights.config.rms_epsilon), threads,
                  weights.config.shape.output_norms),
        qkv_(Size(n_.tokens * n_.qkv())),
        attended_(Size(n_.tokens * n_.heads * n_.dim)),
        attended_rounded_(Size(n_.tokens * n_.heads * n_.dim)),
        gate_up_(Size(n_.slots * 2 * n_.ff)),
        hidden_(Size(n_.slots * n_.ff)),
        added_(Size(n_.slots * n_.d)),
        hooks_(&hooks == &NoHooks() ? nullptr : &hooks),
        terms_(hooks_ != nullptr && !residual_.is_own() ? Size(n_.tokens * n_.d) : 0) {
    eager_.SumBy(hooks);
    eager_.AttendPromptsBy(
        [this](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) { return Attend(q, k, v); });
    eager_.MultiplyIntegersOn(pool_);
    eager_.NormBy([this](const at::Tensor& x, const at::Tensor& weight) { return Norm(x, weight); });
    eager_.GateBy([this](const at::Tensor& gate_up) { return SiluMul(gate_up); });
    eager_.TurnBy([this](const at::Tensor& heads, const at::Tensor& cosines, const at::Tensor& sines) {
      if (heads.scalar_type() != kType || heads.stride(-1) != 1) return false;
      const observe::Range kernel("roofbench::rope");
      TurnHeads(heads, cosines, sines, pool_);
      return true;
    });
    if (kTakesTiles && room.tiles != nullptr) {
      linear_ = [this](const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
        return Linear(x, weight, bias);
      };
      eager_.MultiplyBy(linear_);
      eager_.MultiplyStoredBy([this](const at::Tensor& x, const StoredMatrix& matrix, int64_t expert) {
        return Stored(x, matrix, expert);
      });
    }
    for (LayerWeights& layer : layers_) {
      for (at::Tensor* const vector : LayerVectors(layer)) *vector = Fp32(*vector);
    }
    for (int thread = 0; thread < threads; ++thread) {
      Scratch<T>& s = scratch_.emplace_back(Scratch<T>{.plan = ExpertPlan(n_.tokens, n_.experts, n_.active_experts)});
      s.x.resize(Size(n_.tokens * n_.d));
      s.gathered.resize(Size(n_.tokens * n_.d));
      s.columns.reserve(Size(n_.ff / RowGrain(weights.layers.front().gate_up) + 1));
    }
  }

  // Pieces and experts have fewer tokens than prompts.
  void Prepare(int64_t sequences, int64_t tokens) override {
    if (choice_ == nullptr || tokens == 1) return;
    const LayerWeights& layer = weights_.layers.front();
    const auto options = weights_.embedding.options();
    const auto measure = [&](const StoredMatrix& matrix, int64_t most) {
      if (matrix.rows == 0 || matrix.MultipliesIntegers()) return;
      for (int64_t rows = by_tiles_.least_rows(); rows < 2 * most; rows *= 2) {
        const at::Tensor x = at::ones({std::min(rows, most), matrix.columns}, options);
        if (matrix.IsPlain() || !Stored(x, matrix, 0).defined()) matrix.Apply(x, 0, 0, nullptr, nullptr, linear_);
      }
    };
    for (const StoredMatrix* const matrix : {&layer.qkv, &layer.out, &layer.router, &layer.gate_up, &layer.down}) {
      measure(*matrix, sequences * tokens);
    }
    measure(weights_.head, sequences);
    for (int64_t piece = 2; piece < 2 * tokens; piece *= 2) {
      const auto vectors = [&](int64_t heads) {
        return at::ones({sequences, heads, std::min(piece, tokens), n_.dim}, options);
      };
      Attend(vectors(n_.heads), vectors(n_.kv_heads), vectors(n_.kv_heads));
    }
  }

  const at::Tensor& Append(const at::Tensor& tokens) override { return Restart(), eager_.Append(tokens); }

  const at::Tensor& AppendOne(const at::Tensor& tokens) override {
    SetAll(1);
    return AppendSet(tokens);
  }

  at::Tensor AppendAll(const at::Tensor& tokens) override {
    if (tokens.numel() > n_.tokens) return Restart(), eager_.AppendAll(tokens);
    SetAll(tokens.size(1));
    return AppendSet(tokens).view({batch_, each_, n_.vocab});
  }

  const at::Tensor& AppendTo(const std::vector<Piece>& pieces, const at::Tensor& tokens) override {
    if (std::ranges::any_of(pieces, [](const Piece& piece) { return piece.tokens > 1; })) {
      Restart();
      return eager_.AppendTo(pieces, tokens);
    }
    cache().Check(pieces, tokens.numel());
    each_ = 1;
    sequences_.clear();
    for (const Piece& piece : pieces) sequences_.push_back(piece.sequence);
    return AppendSet(tokens);
  }

  std::optional<double> OutlierColumns() const override {
    return products_.tally().products > 0 ? products_.tally().Mean() : eager_.OutlierColumns();
  }
  int64_t TileProducts() const override { return products_.tile_products() + tile_products_; }
  int64_t LibraryKernels() const override { return library_kernels_; }
  const KvCache* keys_and_values() const override { return eager_.keys_and_values(); }
  int64_t length() const override { return eager_.length(); }
  void Truncate(int64_t length) override { eager_.Truncate(length); }
  void Reorder(const std::vector<int64_t>& from) override { eager_.Reorder(from); }
  void FillRandom(int64_t length, uint64_t seed) override { eager_.FillRandom(length, seed); }
  void ObserveComponents(ComponentMarker marker) override {
    component_ = marker;
    eager_.ObserveComponents(std::move(marker));
  }
  void ObserveStages(Int8Marker marker) override {
    products_.ObserveStages(marker);
    eager_.ObserveStages(std::move(marker));
  }

 private:
  // Undefined weights, which the model does not have, stay undefined.
  static at::Tensor Fp32(const at::Tensor& weight) {
    return weight.defined() ? weight.to(at::kFloat).contiguous() : weight;
  }
  KvCache& cache() { return eager_.cache(); }
  // Before each call.
  void Restart() {
    products_.Restart();
    tile_products_ = 0;
    library_kernels_ = 0;
  }
  // Whether to take ours, counted otherwise.
  template <typename Ours, typename Library>
  bool TakesOurs(const ShapeClass& shape, Ours ours, Library library) {
    if (choice_ == nullptr || choice_->TakesOurs(
                                  shape, [&] { ours(); }, [&] { library(); })) {
      return true;
    }
    ++library_kernels_;
    return false;
  }
  static constexpr at::ScalarType kType = std::is_same_v<T, Bf16> ? at::kBFloat16 : at::kFloat;
  // Whether our kernels take the tensor as it lies.
  static bool IsOurs(const at::Tensor& x) { return x.scalar_type() == kType && x.is_contiguous(); }
  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) {
    if (!IsOurs(x)) return {};
    const observe::Range kernel("roofbench::rms_norm");
    return RmsNormOfRows(x, weight, weights_.config.rms_epsilon, pool_);
  }
  at::Tensor SiluMul(const at::Tensor& gate_up) {
    if (!IsOurs(gate_up)) return {};
    const observe::Range kernel("roofbench::silu_mul");
    return SiluMulOfHalves(gate_up, pool_);
  }
  // As at::linear, for a prompt.
  at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
    if (x.size(0) == 1 && !bias && x.scalar_type() == at::kBFloat16 && x.is_contiguous() && weight.is_contiguous()) {
      const observe::Range kernel("roofbench::gemv");
      at::Tensor y = at::empty({1, weight.size(0)}, x.options());
      kernels::Run(kernels::Gemv<kernels::Bf16Weight, Bf16, Bf16>{.weight = {Elements<Bf16>(weight), weight.size(0),
                                                                             weight.size(1)},
                                                                  .x = Elements<Bf16>(x),
                                                                  .y = Elements<Bf16>(y)},
                   pool_);
      return y;
    }
    const auto library = [&] { return at::linear(x, weight, bias); };
    if (!by_tiles_.Takes(x)) return library();
    const auto by_tiles = [&] {
      const observe::Range kernel("roofbench::linear by tiles");
      return by_tiles_(x, weight, bias, pool_);
    };
    const ShapeClass shape{
        .operation = "linear", .rows = x.size(0), .n = weight.size(0), .k = weight.size(1), .threads = pool_.threads()};
    if (!TakesOurs(shape, by_tiles, library)) return library();
    ++tile_products_;
    return by_tiles();
  }
  // For a prompt by weights in int8 or int4, which LibTorch would convert as a whole; undefined for others.
  at::Tensor Stored(const at::Tensor& x, const StoredMatrix& matrix, int64_t expert) {
    const bool is_int8 = matrix.format == workload::WeightFormat::kInt8;
    if ((!is_int8 && matrix.format != workload::WeightFormat::kInt4) || !by_tiles_.Takes(x)) return {};
    const auto library = [&] { return matrix.Apply(x, expert, 0); };
    const auto multiply = [&](const auto& weight) {
      const at::Tensor vectors = x.contiguous();
      const at::Tensor y = at::empty({x.size(0), matrix.rows}, x.options());
      kernels::Run(kernels::Gemv<std::decay_t<decltype(weight)>, Bf16, Bf16>{weight, Elements<Bf16>(vectors),
                                                                             Elements<Bf16>(y), x.size(0)},
                   pool_);
      return y;
    };
    const auto ours = [&] {
      const observe::Range kernel("roofbench::linear of integers");
      if (is_int8) return multiply(kernels::Expert(matrix.Int8Rows(), expert));
      const kernels::Int4Weight weight = matrix.Int4Rows(expert, 0, matrix.rows);
      // Registers multiply so much faster than vectors that the conversion pays.
      return by_tiles_.in_registers() ? by_tiles_(x, kernels::StoredInt4(weight), matrix.rows, pool_)
                                      : multiply(weight);
    };
    const ShapeClass shape{.operation = is_int8 ? "linear of int8" : "linear of int4",
                           .rows = x.size(0),
                           .n = matrix.rows,
                           .k = matrix.columns,
                           .threads = pool_.threads()};
    if (!TakesOurs(shape, ours, library)) return library();
    ++tile_products_;
    return ours();
  }
  // The causal attention of a prompt.
  at::Tensor Attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const auto ours = [&] { return prompt_attention_(q, k, v, pool_); };
    // LibTorch's does not cap scores, and would need a mask of the tokens before.
    if (weights_.config.score_cap > 0 || q.size(2) < k.size(2)) return ours();
    const auto library = [&] {
      return at::scaled_dot_product_attention(q, k, v, std::nullopt, 0.0, /*is_causal=*/true,
                                              weights_.config.ScoreScale(), n_.heads != n_.kv_heads);
    };
    const ShapeClass shape{.operation = "attention",
                           .rows = q.size(2),
                           .n = q.size(0) * q.size(1),
                           .k = q.size(3),
                           .threads = pool_.threads()};
    return TakesOurs(shape, ours, library) ? ours() : library();
  }
  // The number of tokens in the step.
  int64_t active() const { return static_cast<int64_t>(sequences_.size()) * each_; }

  // The next step takes `each` tokens of every sequence.
  void SetAll(int64_t each) {
    cache().CheckRoom(cache().length(), each);
    each_ = each;
    sequences_.resize(Size(batch_));
    std::iota(sequences_.begin(), sequences_.end(), 0);
  }

  // each_ tokens of each of sequences_, at its own length.
  const at::Tensor& AppendSet(const at::Tensor& tokens) {
    for (const int64_t i : sequences_) cache().CheckRoom(cache().lengths[Size(i)], each_);
    Restart();
    pool_.Region([&, ids = tokens.const_data_ptr<int64_t>()](const Worker& worker) { Step(worker, ids); });
    if (component_) component_(DecoderComponent::kWait);  // for the end of the region
    if (lost_) std::rethrow_exception(std::exchange(lost_, nullptr));
    for (const int64_t i : sequences_) cache().lengths[Size(i)] += each_;
    return active() == n_.tokens ? logits_ : some_logits_ = logits_.narrow(0, 0, active());
  }

  // The first thread reports for all of them.
  void End(const Worker& worker, DecoderComponent component) const {
    if (component_ && worker.index() == 0) component_(component);
  }

  template <typename Then>
  void Product(const Worker& worker, const char* name, const RegionProduct<T>& work, Then then, bool evenly = false) {
    const PartRange range(worker, name);
    products_.Run(worker, work, then, evenly);
  }

  void Wait(const Worker& worker) const {
    worker.Barrier();
    End(worker, DecoderComponent::kWait);
  }

  // Adds up the terms of all ranks. An exception waits for the end of the region: other threads are at its barriers.
  void SumOverRanks(const Worker& worker, const at::Tensor& bias) {
    if (hooks_ == nullptr) return;
    if (worker.index() == 0) {
      const int64_t elements = active() * n_.d;
      float* const terms = residual_.is_own() ? added_.data() : terms_.data();
      try {
        if (!lost_) hooks_->FromShards(at::from_blob(terms, {active(), n_.d}));
      } catch (...) {
        lost_ = std::current_exception();
      }
      AddBias(bias, {0, n_.d}, terms, n_.d);
      if (!residual_.is_own()) {
        float* const residual = residual_.of(worker);
        std::transform(terms, terms + elements, residual, residual, std::plus<>());
        std::fill_n(terms, elements, 0.0F);
      }
    }
    Wait(worker);
  }

  // RunBlocks' operations on a thread of the step's region.
  struct Operations {
    NativeDecoder& d;
    const Worker& worker;
    Scratch<T>& s;

    PartRange Block(std::size_t i) const { return PartRange(worker, "block", static_cast<int64_t>(i)); }
    int Part(const char* /*name*/) const { return 0; }  // its ranges are those of the kernels
    void End(DecoderComponent component) const { d.End(worker, component); }
    void Wait() const { d.Wait(worker); }
    void Norm(const at::Tensor& weight) const { d.residual_.Norm(worker, weight, d.active(), s.x.data()); }
    void Qkv(const LayerWeights& layer) const {
      float* const y = d.qkv_.data();
      d.Product(worker, "roofbench::linear qkv", {.matrix = layer.qkv, .x = s.x.data(), .m = d.active(), .y = y},
                [&](Range rows) { d.AddBias(layer.qkv_bias, rows, y, d.n_.qkv()); });
    }
    void Attend(const LayerWeights& layer, int64_t index) const { d.Attend(worker, layer, index); }
    void Out(const LayerWeights& layer) const {
      const RegionProduct<T> product{
          .matrix = layer.out, .x = d.attended_rounded_.data(), .m = d.active(), .y = d.added_.data()};
      d.Product(worker, "roofbench::linear out", product, [&](Range rows) {
        if (d.hooks_ == nullptr) d.AddBias(layer.out_bias, rows, product.y, d.n_.d);
        for (int64_t b = 0; b < d.active(); ++b) d.Add(worker, b, 1, product.y + b * d.n_.d, rows);
      });
    }
    void FeedForward(const LayerWeights& layer) const {
      if (d.is_mixture_) d.Route(worker, layer, s);
      d.GateUp(worker, layer, s);
      Wait();
      d.Down(worker, layer, s);
    }
    void Add(const at::Tensor& norm, const at::Tensor& bias) const {
      d.SumOverRanks(worker, bias);
      if (norm.defined()) d.residual_.AddNormed(worker, norm, d.active(), d.added_.data());
    }
  };

  void Step(const Worker& worker, const int64_t* tokens) {
    Scratch<T>& s = scratch_[Size(worker.index())];
    if (!is_mixture_) s.plan.Assign(active());
    residual_.Begin(worker, Elements<T>(weights_.embedding), tokens, active(), embedding_scale_);
    const Operations run{*this, worker, s};
    RunBlocks(layers_, run);
    run.Norm(final_norm_);
    End(worker, DecoderComponent::kNorm);
    Product(worker, "roofbench::linear head",
            {.matrix = weights_.head, .x = s.x.data(), .m = active(), .y = logits_.data_ptr<float>()},
            [&](Range rows) { CapLogits(worker, rows); });
    End(worker, DecoderComponent::kHead);
  }

  // Adds some rows of a vector to the residual of token `b`, or to this rank's term of it, if that has no norm.
  void Add(const Worker& worker, int64_t b, float weight, const float* added, Range rows) {
    if (residual_.is_own()) return;
    float* const to = (hooks_ == nullptr ? residual_.of(worker) : terms_.data()) + b * n_.d;
    for (int64_t j = rows.begin; j < rows.end; ++j) to[j] += weight * added[j];
  }

  void CapLogits(const Worker& worker, Range rows) {
    if (weights_.config.logit_cap <= 0) return;
    const PartRange range(worker, "roofbench::soft_cap");
    for (int64_t b = 0; b < active(); ++b) {
      float* const logits = logits_.data_ptr<float>() + b * n_.vocab + rows.begin;
      Run(
          kernels::SoftCap{
              .x = logits, .y = logits, .n = rows.size(), .cap = static_cast<float>(weights_.config.logit_cap)},
          SerialFor());
    }
  }

  // Adds some rows of a bias to the vectors y [active, width].
  void AddBias(const at::Tensor& bias, Range rows, float* y, int64_t width) const {
    if (!bias.defined()) return;
    const float* const added = Elements<float>(bias);
    for (int64_t b = 0; b < active(); ++b, y += width) {
      for (int64_t j = rows.begin; j < rows.end; ++j) y[j] += added[j];
    }
  }

  void Attend(const Worker& worker, const LayerWeights& layer, int64_t index) {
    const PartRange range(worker, "roofbench::decode_attention");
    RunItems(TokenAttention<T>{.n = n_,
                               .epsilon = static_cast<float>(weights_.config.rms_epsilon),
                               .window = weights_.config.WindowOf(index),
                               .scale = static_cast<float>(weights_.config.ScoreScale()),
                               .cap = static_cast<float>(weights_.config.score_cap),
                               .rope = eager_.rope(),
                               .cache = eager_.cache(),
                               .sequences = sequences_,
                               .each = each_,
                               .layer = index,
                               .query_norm = layer.query_norm,
                               .key_norm = layer.key_norm,
                               .qkv = qkv_.data(),
                               .y = attended_.data(),
                               .rounded = attended_rounded_.data()},
             worker.Own(static_cast<int64_t>(sequences_.size()) * n_.kv_heads));
  }

  // Assigns tokens to experts; every thread computes the same.
  void Route(const Worker& worker, const LayerWeights& layer, Scratch<T>& s) {
    const PartRange range(worker, "roofbench::linear router");
    for (int64_t b = 0; b < active(); ++b) {
      products_.Multiply(worker,
                         {.matrix = layer.router, .x = s.x.data() + b * n_.d, .m = 1, .y = s.plan.logits().data()}, {},
                         {0, n_.experts});
      s.plan.Choose(b);
    }
    s.plan.Assign(active());
    End(worker, DecoderComponent::kRouter);
  }

  // The vectors of an expert's tokens, contiguous.
  const T* VectorsOf(int64_t expert, Scratch<T>& s) const {
    if (!is_mixture_) return s.x.data();
    for (int64_t i = 0; i < s.plan.count(expert); ++i) {
      std::copy_n(s.x.data() + s.plan.token(s.plan.begin(expert) + i) * n_.d, n_.d, s.gathered.data() + i * n_.d);
    }
    return s.gathered.data();
  }

  // A thread computes gate and up of the same columns, and combines them at once.
  void GateUp(const Worker& worker, const LayerWeights& layer, Scratch<T>& s) {
    const PartRange range(worker, "roofbench::linear gate_up");
    for (int64_t expert = 0; expert < n_.experts; ++expert) {
      const int64_t begin = s.plan.begin(expert);
      const int64_t count = s.plan.count(expert);
      if (count == 0) continue;
      float* const y = gate_up_.data() + begin * 2 * n_.ff;
      const RegionProduct<T> product{
          .matrix = layer.gate_up, .expert = expert, .x = VectorsOf(expert, s), .m = count, .y = y};
      const kernels::Int8Activations& quantized = products_.Prepare(worker, product);
      s.columns.clear();
      const auto multiply = [&](Range columns) {
        products_.Multiply(worker, product, quantized, columns);
        products_.Multiply(worker, product, quantized, {n_.ff + columns.begin, n_.ff + columns.end});
        s.columns.push_back(columns);
      };
      products_.Divide(worker, product, n_.ff, multiply);
      End(worker, DecoderComponent::kGateUp);
      for (const Range columns : s.columns) {
        for (int64_t i = 0; i < count; ++i) {
          const float* const gate = y + i * 2 * n_.ff + columns.begin;
          T* const hidden = hidden_.data() + (begin + i) * n_.ff + columns.begin;
          if (weights_.config.gate == Gate::kSilu) {
            Run(kernels::SiluMul<float, T>{.gate = gate, .up = gate + n_.ff, .y = hidden, .n = columns.size()},
                SerialFor());
          } else {
            Run(kernels::GeluTanhMul<T>{.gate = gate, .up = gate + n_.ff, .y = hidden, .n = columns.size()},
                SerialFor());
          }
        }
      }
      End(worker, DecoderComponent::kGate);
    }
  }

  void Down(const Worker& worker, const LayerWeights& layer, const Scratch<T>& s) {
    for (int64_t expert = 0; expert < n_.experts; ++expert) {
      const int64_t begin = s.plan.begin(expert);
      const int64_t count = s.plan.count(expert);
      if (count == 0) continue;
      const RegionProduct<T> product{.matrix = layer.down,
                                     .expert = expert,
                                     .x = hidden_.data() + begin * n_.ff,
                                     .m = count,
                                     .y = added_.data() + begin * n_.d};
      const auto add = [&](Range rows) {
        for (int64_t i = 0; i < count; ++i) {
          Add(worker, s.plan.token(begin + i), s.plan.weight(begin + i), product.y + i * n_.d, rows);
        }
      };
      // Two experts of a token add to the same rows without a barrier in between.
      Product(worker, "roofbench::linear down", product, add, /*evenly=*/is_mixture_);
      End(worker, DecoderComponent::kDown);
    }
  }

  const DecoderWeights& weights_;
  const bool is_mixture_;
  const int64_t batch_;
  const Extents n_;
  const kernels::ThreadPool pool_;
  EagerDecoder eager_;  // reads prompts, and owns the cache
  const float embedding_scale_ = static_cast<float>(weights_.EmbeddingScale());
  PromptAttention prompt_attention_;
  RegionProducts<T> products_;
  LinearByTiles by_tiles_;  // of prompts
  MeasuredChoice* const choice_;
  LinearFunction linear_;                               // nullptr: at::linear
  int64_t tile_products_ = 0;                           // of the last prompt
  int64_t library_kernels_ = 0;                         // the same
  std::vector<LayerWeights> layers_ = weights_.layers;  // with their vectors in fp32, which our kernels read
  at::Tensor final_norm_;
  at::Tensor logits_;
  at::Tensor some_logits_;          // of fewer tokens
  std::vector<int64_t> sequences_;  // of the tokens of the step
  int64_t each_ = 1;                // tokens of each of them
  ResidualStream residual_;
  std::vector<float> qkv_;
  std::vector<float> attended_;
  std::vector<T> attended_rounded_;
  std::vector<float> gate_up_;
  std::vector<T> hidden_;
  std::vector<float> added_;
  ForwardHooks* const hooks_;  // nullptr: the weights are the whole model's
  std::vector<float> terms_;   // this rank's, of what is added to the residual; empty if that is added_
  std::exception_ptr lost_;    // thrown by the hooks
  ComponentMarker component_;
  std::vector<Scratch<T>> scratch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DecoderModel>> MakeNativeDecoder(const DecoderWeights& weights, const DecoderRoom& room,
                                                                int threads, ForwardHooks& hooks) {
  const int64_t dim = DecoderSizes(weights.config.shape).dim;
  if (dim > kernels::kMostHeadDim) {
    return absl::UnimplementedError(absl::StrCat("native attention supports heads of up to ", kernels::kMostHeadDim,
                                                 " dimensions, not of ", dim, "; the eager decoder supports any"));
  }
  if (weights.storage.format == workload::WeightFormat::kFp8) {
    return absl::UnimplementedError("native kernels do not support fp8; the eager decoder does");
  }
  switch (weights.storage.Unquantized()) {
    case workload::WeightFormat::kFp16:
      return absl::UnimplementedError("native kernels do not support fp16; the eager decoder does");
    case workload::WeightFormat::kFp32:
      return std::make_unique<NativeDecoder<float>>(weights, room, threads, hooks);
    default:
      return std::make_unique<NativeDecoder<Bf16>>(weights, room, threads, hooks);
  }
}

}  // namespace roofbench::models
