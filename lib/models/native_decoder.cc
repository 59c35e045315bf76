// The decoder with our own kernels. A prompt goes through LibTorch's products; a token of each sequence is one parallel
// region, in which threads meet four times a layer and nothing is allocated.

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/kernels/decode_attention.h"
#include "lib/kernels/gemv.h"
#include "lib/kernels/huge_pages.h"
#include "lib/kernels/llm_int8.h"
#include "lib/kernels/row_shares.h"
#include "lib/kernels/team.h"
#include "lib/models/decoder.h"
#include "lib/models/eager_decoder.h"
#include "lib/models/elements.h"
#include "lib/models/rope.h"

namespace roofbench::models {
namespace {

using kernels::Bf16;
using kernels::Range;
using kernels::Rounded;
using kernels::ToFloat;
using kernels::Worker;
using workload::DecoderPart;
using workload::WeightFormat;

int64_t Whole(double size) { return static_cast<int64_t>(size); }

// What a thread has for itself. Every thread computes the norms of whole tokens, which costs less than to wait for one
// that does.
template <typename T>
struct Scratch {
  std::vector<T> x;         // the vectors that a product reads: [batch, widest]
  std::vector<T> gathered;  // those of an expert's tokens
  std::vector<int8_t> quantised;
  std::vector<float> row_max;
  std::vector<int32_t> sums;
  std::vector<int32_t> outliers;
  std::vector<float> router;  // [experts]
  // A mixture's plan: token and weight of each slot, slots of an expert side by side.
  std::vector<int64_t> slot_token;
  std::vector<float> slot_weight;
  std::vector<int64_t> expert_begin;              // [experts + 1]
  std::vector<std::pair<int64_t, float>> chosen;  // [batch · active]: expert and weight
  int64_t product = 0;                            // of the token: how many its rows were divided of
  std::vector<Range> parts;                       // of a product's rows, that fell to this thread
};

// T: what vectors are rounded to before a product, and what the cache holds.
template <typename T>
class NativeDecoder final : public Decoder {
 public:
  NativeDecoder(const DecoderWeights& weights, int64_t batch, int64_t capacity, int threads)
      : weights_(weights),
        shape_(weights.config.shape),
        batch_(batch),
        d_(Whole(shape_.base.d_model)),
        ff_(Whole(shape_.base.d_ff)),
        heads_(Whole(shape_.base.heads)),
        kv_heads_(Whole(shape_.base.KvHeads())),
        dim_(Whole(shape_.base.HeadDim())),
        experts_(Whole(shape_.experts)),
        active_(Whole(shape_.active_experts)),
        slots_(batch * active_),
        team_(threads),
        shares_(Whole(shape_.base.layers) * (2 + 2 * experts_) + 1),
        eager_(weights, batch, capacity),
        logits_(at::zeros({batch, Whole(shape_.base.vocab)}, at::kFloat)),
        residual_(Size(batch * d_)),
        qkv_(Size(batch * (heads_ + 2 * kv_heads_) * dim_)),
        attended_(Size(batch * heads_ * dim_)),
        attended_rounded_(Size(batch * heads_ * dim_)),
        gate_up_(Size(slots_ * 2 * ff_)),
        hidden_(Size(slots_ * ff_)),
        added_(Size(slots_ * d_)),
        products_(weights.storage.format == WeightFormat::kLlmInt8 ? WidestResult() : 0),
        scratch_(static_cast<std::size_t>(threads)) {
    const int64_t widest = std::max({d_, ff_, heads_ * dim_});
    for (Scratch<T>& s : scratch_) {
      s.x.resize(Size(batch * d_));
      s.gathered.resize(Size(batch * d_));
      s.quantised.resize(Size(batch * widest));
      s.row_max.resize(Size(batch));
      s.sums.resize(Size(batch));
      s.outliers.resize(Size(widest));
      s.router.resize(Size(experts_));
      s.slot_token.resize(Size(slots_));
      s.slot_weight.resize(Size(slots_));
      s.expert_begin.resize(Size(experts_ + 1));
      s.chosen.resize(Size(slots_));
      s.parts.reserve(Size(ff_ / Grain(weights.layers.front().gate_up) + 1));
    }
  }

  const at::Tensor& Append(const at::Tensor& tokens) override { return eager_.Append(tokens); }

  const at::Tensor& AppendOne(const int64_t* tokens) override {
    TORCH_CHECK(cache().length < cache().capacity, "the cache holds ", cache().capacity, " tokens");
    shares_.Restart();
    team_.Region([&](const Worker& worker) { Token(worker, tokens); });
    if (part_) part_(DecoderPart::kWait);  // for the end of the region
    ++cache().length;
    return logits_;
  }

  int64_t length() const override { return eager_.length(); }
  void Truncate(int64_t length) override { eager_.Truncate(length); }
  void FillRandom(int64_t length, uint64_t seed) override { eager_.FillRandom(length, seed); }
  void ObserveParts(PartMarker marker) override {
    part_ = marker;
    eager_.ObserveParts(std::move(marker));
  }
  void ObserveStages(LlmInt8Marker marker) override {
    marker_ = marker;
    eager_.ObserveStages(std::move(marker));
  }

 private:
  static std::size_t Size(int64_t elements) { return static_cast<std::size_t>(elements); }
  KvCache& cache() { return eager_.cache(); }

  // Elements of the largest result of a product.
  std::size_t WidestResult() const {
    return Size(std::max(
        {batch_ * (heads_ + 2 * kv_heads_) * dim_, slots_ * 2 * ff_, slots_ * d_, batch_ * Whole(shape_.base.vocab)}));
  }

  // The threads do the same at the same time, so that one speaks for all.
  void End(const Worker& worker, DecoderPart part) const {
    if (part_ && worker.index() == 0) part_(part);
  }

  void Wait(const Worker& worker) const {
    worker.Barrier();
    End(worker, DecoderPart::kWait);
  }

  void Mark(const Worker& worker, LlmInt8Stage stage) const {
    if (marker_ && worker.index() == 0) marker_(stage);
  }

  // The steps one after another for parts of the rows, so that those of a step find in a cache what the last one read,
  // and few enough for each to be marked.
  void Multiply(const Worker& worker, const kernels::LlmInt8Product& work, Range rows) const {
    constexpr int64_t kParts = 4;
    constexpr int64_t kFewestRows = 128;
    const int64_t part = std::max(kFewestRows, (rows.size() + kParts - 1) / kParts);
    for (int64_t begin = rows.begin; begin < rows.end; begin += part) {
      const Range some{begin, std::min(begin + part, rows.end)};
      MultiplyRows(work, some);
      Mark(worker, LlmInt8Stage::kProduct);
      DequantiseRows(work, some);
      Mark(worker, LlmInt8Stage::kDequantise);
      AddOutliers(work, some);
      Mark(worker, LlmInt8Stage::kOutliers);
    }
  }

  // y[m, rows] = matrix · x, by the kernel of the matrix's format.
  void Product(const Worker& worker, const StoredMatrix& matrix, int64_t expert, const T* x, int64_t m, float* y,
               Range rows, const kernels::LlmInt8Activations* quantised) {
    const int64_t first = expert * matrix.rows;
    const int64_t n = matrix.rows;
    const int64_t k = matrix.columns;
    if (rows.size() <= 0) return;
    if constexpr (std::is_same_v<T, float>) {
      const kernels::Fp32Weight weight{Elements<float>(matrix.weight) + first * k, n, k};
      RunRows(kernels::Gemv<kernels::Fp32Weight, float, float>{weight, x, y, m}, rows);
    } else if (matrix.format == WeightFormat::kInt8) {
      const kernels::Int8Weight weight{Elements<int8_t>(matrix.weight) + first * k,
                                       Elements<float>(matrix.scale) + first, n, k};
      RunRows(kernels::Gemv<kernels::Int8Weight, Bf16, float>{weight, x, y, m}, rows);
    } else if (matrix.format == WeightFormat::kInt4) {
      const kernels::Int4Weight weight{reinterpret_cast<std::byte*>(Elements<uint8_t>(matrix.weight)) +
                                           expert * kernels::Int4Bytes(n, k, matrix.group),
                                       n, k, matrix.group};
      RunRows(kernels::Gemv<kernels::Int4Weight, Bf16, float>{weight, x, y, m}, rows);
    } else if (matrix.format == WeightFormat::kLlmInt8) {
      const kernels::LlmInt8Weight weight{Elements<int8_t>(matrix.weight) + first * k,
                                          Elements<float>(matrix.scale) + first, n, k};
      Multiply(worker,
               {.weight = weight, .activations = quantised, .x = x, .m = m, .products = products_.data(), .y = y},
               rows);
    } else {
      const kernels::Bf16Weight weight{Elements<Bf16>(matrix.weight) + first * k, n, k};
      RunRows(kernels::Gemv<kernels::Bf16Weight, Bf16, float>{weight, x, y, m}, rows);
    }
  }

  // A thread's quantised copy of x [m, k], where the format wants one.
  kernels::LlmInt8Activations Quantised(const Worker& worker, const StoredMatrix& matrix, const T* x, int64_t m,
                                        Scratch<T>& s) const {
    kernels::LlmInt8Activations made{s.quantised.data(), s.row_max.data(), s.sums.data(), s.outliers.data()};
    if constexpr (std::is_same_v<T, Bf16>) {
      if (matrix.format == WeightFormat::kLlmInt8) {
        const auto threshold = static_cast<float>(weights_.storage.outlier_threshold);
        Mark(worker, LlmInt8Stage::kOther);
        SelectOutliers(x, m, matrix.columns, threshold, made);
        Mark(worker, LlmInt8Stage::kSelect);
        QuantiseActivations(x, m, matrix.columns, threshold, made);
        Mark(worker, LlmInt8Stage::kQuantise);
      }
    }
    return made;
  }

  int64_t Grain(const StoredMatrix& matrix) const {
    return matrix.format == WeightFormat::kInt4 ? kernels::kInt4TileRows : 1;
  }

  void Norm(const at::Tensor& weight, T* to) const {
    const T* const scale = Elements<T>(weight);
    const auto epsilon = static_cast<float>(weights_.config.rms_epsilon);
    for (int64_t b = 0; b < batch_; ++b) {
      const float* const x = residual_.data() + b * d_;
      float squares[16] = {};
      int64_t i = 0;
      for (; i + 16 <= d_; i += 16) {
        for (int64_t j = 0; j < 16; ++j) squares[j] += x[i + j] * x[i + j];
      }
      for (; i < d_; ++i) squares[0] += x[i] * x[i];
      const float sum = std::accumulate(std::begin(squares), std::end(squares), 0.0F);
      const float inverse = 1 / std::sqrt(sum / static_cast<float>(d_) + epsilon);
      for (i = 0; i < d_; ++i) to[b * d_ + i] = Rounded<T>(x[i] * inverse * ToFloat(scale[i]));
    }
  }

  void Token(const Worker& worker, const int64_t* tokens) {
    Scratch<T>& s = scratch_[Size(worker.index())];
    s.product = 0;
    worker(batch_ * d_, [&](Range range) {
      const T* const table = Elements<T>(weights_.embedding);
      for (int64_t i = range.begin; i < range.end; ++i) {
        residual_[Size(i)] = ToFloat(table[tokens[i / d_] * d_ + i % d_]);
      }
    });
    for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
      const LayerWeights& layer = weights_.layers[i];
      Norm(layer.attention_norm, s.x.data());
      End(worker, DecoderPart::kNorm);
      SharedProduct(worker, layer.qkv, s.x.data(), qkv_.data(), s);
      End(worker, DecoderPart::kQkv);
      Wait(worker);
      Attend(worker, static_cast<int64_t>(i));
      End(worker, DecoderPart::kAttention);
      Wait(worker);
      AddProduct(worker, layer.out, attended_rounded_.data(), s);
      End(worker, DecoderPart::kOut);
      Wait(worker);
      Norm(layer.mlp_norm, s.x.data());
      End(worker, DecoderPart::kNorm);
      Mlp(worker, layer, s);
      Wait(worker);
    }
    Norm(weights_.final_norm, s.x.data());
    End(worker, DecoderPart::kNorm);
    SharedProduct(worker, weights_.head, s.x.data(), logits_.data_ptr<float>(), s);
    End(worker, DecoderPart::kHead);
  }

  // Calls body(Range) for this thread's parts of a matrix's rows, or of `rows` pieces of as many rows each. Every
  // thread divides the same products one after another. `evenly`: a thread has the same part of them every time.
  template <typename Body>
  void Divide(const Worker& worker, const StoredMatrix& matrix, int64_t rows, Scratch<T>& s, Body body,
              bool evenly = false) {
    const int64_t product = s.product++;
    // The stages of LLM.int8() are told part by part, and for as many parts every time.
    if (evenly || matrix.format == WeightFormat::kLlmInt8) return body(worker.Own(rows, Grain(matrix)));
    constexpr int64_t kLeastBytes = 1 << 16;  // take microseconds
    const int64_t row_bytes = matrix.nbytes() / (matrix.experts * rows);
    const int64_t least = std::max<int64_t>(1, kLeastBytes / std::max<int64_t>(1, row_bytes));
    shares_.Divide(worker, product, rows, Grain(matrix), least, body);
  }

  // This thread's rows of a product of all sequences' vectors.
  void SharedProduct(const Worker& worker, const StoredMatrix& matrix, const T* x, float* y, Scratch<T>& s) {
    SharedProduct(worker, matrix, x, y, s, [](Range) {});
  }

  // The same, and then(Range) for each of their parts.
  template <typename Then>
  void SharedProduct(const Worker& worker, const StoredMatrix& matrix, const T* x, float* y, Scratch<T>& s, Then then) {
    const kernels::LlmInt8Activations quantised = Quantised(worker, matrix, x, batch_, s);
    Divide(worker, matrix, matrix.rows, s, [&](Range rows) {
      Product(worker, matrix, 0, x, batch_, y, rows, &quantised);
      then(rows);
    });
  }

  // The same, added to the residual.
  void AddProduct(const Worker& worker, const StoredMatrix& matrix, const T* x, Scratch<T>& s) {
    SharedProduct(worker, matrix, x, added_.data(), s, [&](Range rows) {
      for (int64_t b = 0; b < batch_; ++b) {
        for (int64_t i = rows.begin; i < rows.end; ++i) residual_[Size(b * d_ + i)] += added_[Size(b * d_ + i)];
      }
    });
  }

  // Turns the pairs of a head by the angles of the token's position.
  void Rotate(float* head) const {
    const int64_t half = dim_ / 2;
    const float* const c = Elements<float>(eager_.rope().cosines()) + eager_.length() * half;
    const float* const s = Elements<float>(eager_.rope().sines()) + eager_.length() * half;
    for (int64_t i = 0; i < half; ++i) {
      const float a = head[i];
      const float b = head[i + half];
      head[i] = a * c[i] - b * s[i];
      head[i + half] = b * c[i] + a * s[i];
    }
  }

  void Attend(const Worker& worker, int64_t layer) {
    const int64_t group = heads_ / kv_heads_;
    const int64_t position = eager_.length();
    const int64_t stride = eager_.cache().capacity * dim_;
    const Range own = worker.Own(batch_ * kv_heads_);
    for (int64_t item = own.begin; item < own.end; ++item) {
      const int64_t b = item / kv_heads_;
      const int64_t head = item % kv_heads_;
      float* const sequence = qkv_.data() + b * (heads_ + 2 * kv_heads_) * dim_;
      float* const q = sequence + head * group * dim_;
      float* const k = sequence + (heads_ + head) * dim_;
      const float* const v = k + kv_heads_ * dim_;
      for (int64_t g = 0; g < group; ++g) Rotate(q + g * dim_);
      Rotate(k);
      const int64_t cached = (layer * batch_ * kv_heads_ + item) * stride;
      T* const keys = Elements<T>(eager_.cache().keys) + cached;
      T* const values = Elements<T>(eager_.cache().values) + cached;
      for (int64_t i = 0; i < dim_; ++i) {
        keys[position * dim_ + i] = Rounded<T>(k[i]);
        values[position * dim_ + i] = Rounded<T>(v[i]);
      }
      float* const y = attended_.data() + item * group * dim_;
      kernels::RunHeads(kernels::DecodeAttention<T>{.q = q,
                                                    .keys = keys,
                                                    .values = values,
                                                    .y = y,
                                                    .heads = 1,
                                                    .group = group,
                                                    .head_dim = dim_,
                                                    .length = position + 1,
                                                    .head_stride = stride},
                        {0, 1});
      T* const rounded = attended_rounded_.data() + item * group * dim_;
      for (int64_t i = 0; i < group * dim_; ++i) rounded[i] = Rounded<T>(y[i]);
    }
  }

  // Which expert takes which tokens: the same on every thread.
  void Route(const Worker& worker, const LayerWeights& layer, Scratch<T>& s) {
    if (!shape_.IsMixture()) {
      std::iota(s.slot_token.begin(), s.slot_token.end(), 0);
      std::fill(s.slot_weight.begin(), s.slot_weight.end(), 1.0F);
      s.expert_begin[0] = 0;
      s.expert_begin[1] = batch_;
      return;
    }
    for (int64_t b = 0; b < batch_; ++b) {
      Product(worker, layer.router, 0, s.x.data() + b * d_, 1, s.router.data(), {0, experts_}, nullptr);
      // The softmax over all, taken for the chosen and made to sum to one, is the softmax over the chosen.
      const float largest = *std::max_element(s.router.begin(), s.router.end());
      float sum = 0;
      for (int64_t i = 0; i < active_; ++i) {
        const auto best = std::max_element(s.router.begin(), s.router.end());
        const float weight = std::exp(*best - largest);
        s.chosen[Size(b * active_ + i)] = {best - s.router.begin(), weight};
        *best = -std::numeric_limits<float>::infinity();
        sum += weight;
      }
      for (int64_t i = 0; i < active_; ++i) s.chosen[Size(b * active_ + i)].second /= sum;
    }
    int64_t slot = 0;
    for (int64_t expert = 0; expert < experts_; ++expert) {
      s.expert_begin[Size(expert)] = slot;
      for (int64_t i = 0; i < slots_; ++i) {
        if (s.chosen[Size(i)].first != expert) continue;
        s.slot_token[Size(slot)] = i / active_;
        s.slot_weight[Size(slot++)] = s.chosen[Size(i)].second;
      }
    }
    s.expert_begin[Size(experts_)] = slot;
    End(worker, DecoderPart::kRouter);
  }

  void Mlp(const Worker& worker, const LayerWeights& layer, Scratch<T>& s) {
    Route(worker, layer, s);
    // Gate and up of the same columns fall to the same thread, so that it can join them at once.
    for (int64_t expert = 0; expert < experts_; ++expert) {
      const int64_t begin = s.expert_begin[Size(expert)];
      const int64_t count = s.expert_begin[Size(expert + 1)] - begin;
      if (count == 0) continue;
      const T* x = s.x.data();
      if (shape_.IsMixture()) {
        for (int64_t i = 0; i < count; ++i) {
          std::copy_n(x + s.slot_token[Size(begin + i)] * d_, d_, s.gathered.data() + i * d_);
        }
        x = s.gathered.data();
      }
      float* const y = gate_up_.data() + begin * 2 * ff_;
      const kernels::LlmInt8Activations quantised = Quantised(worker, layer.gate_up, x, count, s);
      s.parts.clear();
      Divide(worker, layer.gate_up, ff_, s, [&](Range columns) {
        Product(worker, layer.gate_up, expert, x, count, y, columns, &quantised);
        Product(worker, layer.gate_up, expert, x, count, y, {ff_ + columns.begin, ff_ + columns.end}, &quantised);
        s.parts.push_back(columns);
      });
      End(worker, DecoderPart::kGateUp);
      for (const Range columns : s.parts) {
        for (int64_t i = 0; i < count; ++i) {
          for (int64_t j = columns.begin; j < columns.end; ++j) {
            const float gate = y[i * 2 * ff_ + j];
            const float up = y[i * 2 * ff_ + ff_ + j];
            hidden_[Size((begin + i) * ff_ + j)] = Rounded<T>(gate / (1 + std::exp(-gate)) * up);
          }
        }
      }
      End(worker, DecoderPart::kGate);
    }
    Wait(worker);
    for (int64_t expert = 0; expert < experts_; ++expert) {
      const int64_t begin = s.expert_begin[Size(expert)];
      const int64_t count = s.expert_begin[Size(expert + 1)] - begin;
      if (count == 0) continue;
      const T* const x = hidden_.data() + begin * ff_;
      float* const y = added_.data() + begin * d_;
      const kernels::LlmInt8Activations quantised = Quantised(worker, layer.down, x, count, s);
      const auto add_product = [&](Range rows) {
        Product(worker, layer.down, expert, x, count, y, rows, &quantised);
        for (int64_t i = 0; i < count; ++i) {
          float* const residual = residual_.data() + s.slot_token[Size(begin + i)] * d_;
          const float weight = s.slot_weight[Size(begin + i)];
          for (int64_t j = rows.begin; j < rows.end; ++j) residual[j] += weight * y[i * d_ + j];
        }
      };
      // Two experts of a token add to the same rows, and nobody waits between them.
      Divide(worker, layer.down, d_, s, add_product, /*evenly=*/shape_.IsMixture());
      End(worker, DecoderPart::kDown);
    }
  }

  const DecoderWeights& weights_;
  const workload::Decoder shape_;
  const int64_t batch_;
  const int64_t d_;
  const int64_t ff_;
  const int64_t heads_;
  const int64_t kv_heads_;
  const int64_t dim_;
  const int64_t experts_;
  const int64_t active_;
  const int64_t slots_;  // pairs of a token and an expert
  const kernels::OpenMpTeam team_;
  kernels::RowShares shares_;
  EagerDecoder eager_;  // reads prompts, and owns the cache
  at::Tensor logits_;
  std::vector<float> residual_;
  std::vector<float> qkv_;
  std::vector<float> attended_;
  std::vector<T> attended_rounded_;
  std::vector<float> gate_up_;
  std::vector<T> hidden_;
  std::vector<float> added_;
  std::vector<int32_t> products_;  // of LLM.int8(), before they are dequantised
  PartMarker part_;
  LlmInt8Marker marker_;
  std::vector<Scratch<T>> scratch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> MakeNativeDecoder(const DecoderWeights& weights, int64_t batch,
                                                           int64_t capacity, int threads) {
  const int64_t dim = Whole(weights.config.shape.base.HeadDim());
  if (dim > kernels::kMostHeadDim) {
    return absl::UnimplementedError(absl::StrCat("native attention takes heads of up to ", kernels::kMostHeadDim,
                                                 " dimensions, not of ", dim, "; impl:eager takes any"));
  }
  switch (weights.storage.format) {
    case WeightFormat::kFp16:
      return absl::UnimplementedError("there is no native kernel for fp16 weights; impl:eager takes them");
    case WeightFormat::kFp32:
      return std::make_unique<NativeDecoder<float>>(weights, batch, capacity, threads);
    default:
      return std::make_unique<NativeDecoder<Bf16>>(weights, batch, capacity, threads);
  }
}

}  // namespace roofbench::models
