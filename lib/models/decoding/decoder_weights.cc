// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/decoder_weights.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/kernels/threading/huge_pages.h"

namespace roofbench::models {
namespace {

struct RoleRow {
  std::string_view name;
  workload::DecoderComponent component;
};

// In the order of LinearRole.
constexpr std::array<RoleRow, kLinearRoles.size()> kRoles = {{
    {"qkv_proj", workload::DecoderComponent::kQkv},
    {"o_proj", workload::DecoderComponent::kOut},
    {"router", workload::DecoderComponent::kRouter},
    {"gate_up_proj", workload::DecoderComponent::kGateUp},
    {"down_proj", workload::DecoderComponent::kDown},
    {"lm_head", workload::DecoderComponent::kHead},
}};

const RoleRow& RowOf(LinearRole role) { return kRoles[static_cast<std::size_t>(role)]; }

}  // namespace

std::string_view Name(LinearRole role) { return RowOf(role).name; }

std::optional<LinearRole> ParseLinearRole(std::string_view name) {
  const auto* const found = std::ranges::find(kLinearRoles, name, Name);
  return found == kLinearRoles.end() ? std::nullopt : std::optional(*found);
}

Storage Storage::Default(workload::WeightFormat format) {
  Storage storage{.format = format};
  if (!workload::QuantizesHead(format)) storage.skipped.insert(LinearRole::kHead);
  return storage;
}

workload::WeightFormat Storage::FormatOf(LinearRole role) const {
  const bool stays = role == LinearRole::kRouter || skipped.count(role) > 0;
  return stays ? Unquantized() : format;
}

workload::StoredDecoder Storage::Of(const workload::Decoder& shape) const {
  std::set<workload::DecoderComponent> kept;
  for (const LinearRole role : skipped) kept.insert(RowOf(role).component);
  return {.shape = shape,
          .format = format,
          .kept = std::move(kept),
          .group = static_cast<double>(group),
          .activations = activations,
          .int8_cache = int8_cache};
}

namespace {

using workload::Activations;
using workload::WeightFormat;

bool HeadIsEmbedding(const workload::Decoder& shape, const Storage& storage) {
  return shape.base.tied_head && storage.FormatOf(LinearRole::kHead) == storage.Unquantized();
}

StoredMatrix EmptyMatrix(const Storage& storage, at::Device device, LinearRole role, int64_t count, int64_t rows,
                         int64_t columns) {
  const WeightFormat format = storage.FormatOf(role);
  StoredMatrix made = StoredMatrix::Empty(format, count, rows, columns, storage.group, device);
  made.int8_activations = storage.activations == Activations::kInt8 && TakesActivations(format, storage.activations);
  return made;
}

// Allocates all of the model but its layers.
absl::StatusOr<DecoderWeights> Allocate(const DecoderConfig& config, const Storage& storage, at::Device device) {
  const DecoderSizes n(config.shape);
  const int64_t d = n.d;
  if (absl::Status status = CheckStorage(config, storage); !status.ok()) return status;
  const auto type = at::TensorOptions(device).dtype(PlainType(storage.Unquantized()));
  DecoderWeights made{.config = config, .storage = storage};
  made.embedding = at::empty({n.vocab, d}, type);
  if (device.is_cpu()) kernels::UseHugePages(made.embedding.data_ptr(), made.embedding.nbytes());
  made.final_norm = at::ones({d}, config.shape.fp32_norms ? type.dtype(at::kFloat) : type);
  if (HeadIsEmbedding(config.shape, storage)) {
    made.head = {.format = storage.FormatOf(LinearRole::kHead),
                 .rows = n.vocab,
                 .columns = d,
                 .weight = made.embedding.unsqueeze(0)};
  } else {
    made.head = EmptyMatrix(storage, device, LinearRole::kHead, 1, n.vocab, d);
  }
  return made;
}

LayerWeights EmptyLayer(const DecoderConfig& config, const Storage& storage, at::Device device) {
  const DecoderSizes n(config.shape);
  const auto matrix = [&](LinearRole role, int64_t count, int64_t rows, int64_t columns) {
    return EmptyMatrix(storage, device, role, count, rows, columns);
  };
  const auto type = at::TensorOptions(device).dtype(PlainType(storage.Unquantized()));
  const auto norm_type = config.shape.fp32_norms ? type.dtype(at::kFloat) : type;
  LayerWeights layer{.attention_norm = at::ones({n.d}, norm_type),
                     .qkv = matrix(LinearRole::kQkv, 1, n.qkv(), n.d),
                     .out = matrix(LinearRole::kOut, 1, n.d, n.q()),
                     .mlp_norm = at::ones({n.d}, norm_type)};
  if (config.shape.IsMixture()) layer.router = matrix(LinearRole::kRouter, 1, n.experts, n.d);
  if (config.shape.attention_bias) layer.qkv_bias = at::zeros({n.qkv()}, type);
  if (config.shape.output_bias) layer.out_bias = at::zeros({n.d}, type);
  if (config.shape.head_norms) {
    layer.query_norm = at::ones({n.dim}, norm_type);
    layer.key_norm = at::ones({n.dim}, norm_type);
  }
  if (config.shape.output_norms) {
    layer.attention_out_norm = at::ones({n.d}, norm_type);
    layer.mlp_out_norm = at::ones({n.d}, norm_type);
  }
  layer.gate_up = matrix(LinearRole::kGateUp, n.experts, 2 * n.ff, n.d);
  layer.down = matrix(LinearRole::kDown, n.experts, n.d, n.ff);
  return layer;
}

// Products by rows give a rank its heads and features; those by columns, its term of a sum.
LayerWeights PartOf(LayerWeights layer, const DecoderSizes& n, const ModelPart& part) {
  if (part.of == 1) return layer;
  const std::vector<int64_t> heads = {n.q(), n.kv(), n.kv()};
  layer.qkv = layer.qkv.PartOfRows(heads, part);
  if (const at::Tensor whole = layer.qkv_bias; whole.defined()) {
    layer.qkv_bias = at::empty({n.qkv() / part.of}, whole.options());
    CopyPart(whole, 0, heads, part, layer.qkv_bias);
  }
  layer.out = layer.out.PartOfColumns(part);
  layer.gate_up = layer.gate_up.PartOfRows({n.ff, n.ff}, part);
  layer.down = layer.down.PartOfColumns(part);
  return layer;
}

// Quantizing would turn a NaN into a number.
bool IsFinite(const at::Tensor& rows) {
  const auto [low, high] = at::aminmax(rows);
  return std::isfinite(low.item<double>()) && std::isfinite(high.item<double>());
}

// The formats that a checkpoint stored in 4 bits can become.
absl::Status CheckPacked(const PackedFormat& packed, const Storage& storage) {
  const WeightFormat format = storage.format;
  if (format == WeightFormat::kInt8 || format == WeightFormat::kLlmInt8 || format == WeightFormat::kFp8) {
    return absl::UnimplementedError(absl::StrCat(
        std::string(Name(format)), " of a checkpoint that is stored in 4 bits (", packed.Name(),
        ") would hold the same 4 bits in twice the memory: int4 runs it as it is, bf16, fp16 and fp32 dequantized"));
  }
  if (format == WeightFormat::kInt4 && packed.group % storage.group != 0) {
    return absl::UnimplementedError(absl::StrCat("int4 in groups of ", storage.group, " cannot keep the codes of a ",
                                                 "checkpoint in groups of ", packed.group,
                                                 ", which is not a multiple: choose smaller groups"));
  }
  return absl::OkStatus();
}

bool SharesEmbedding(const DecoderWeights& weights) { return weights.head.weight.is_alias_of(weights.embedding); }

}  // namespace

Storage DefaultStorage(const DecoderConfig& config, WeightFormat format) {
  Storage storage = Storage::Default(format);
  if (!config.packed || format != WeightFormat::kInt4) return storage;
  storage.skipped.insert(LinearRole::kHead);
  if (StoredMatrix::Check(format, config.packed->group, config.packed->group).ok()) {
    storage.group = config.packed->group;
  }
  return storage;
}

absl::Status CheckStorage(const DecoderConfig& config, const Storage& storage) {
  const workload::Decoder& shape = config.shape;
  if (config.packed) {
    if (absl::Status status = CheckPacked(*config.packed, storage); !status.ok()) return status;
  }
  if (!TakesActivations(storage.format, storage.activations)) {
    const char* const why =
        storage.activations == Activations::kInt8
            ? "activations are rounded to 8 bits for int8 and int4 weights, not for "
            : "activations in fp16 are for quantized weights, as weights in fp16 have them; not for ";
    return absl::UnimplementedError(absl::StrCat(why, std::string(Name(storage.format))));
  }
  const DecoderSizes n(shape);
  absl::Status status;
  for (const auto& [role, columns] :
       {std::pair(LinearRole::kQkv, n.d), std::pair(LinearRole::kGateUp, n.d), std::pair(LinearRole::kOut, n.q()),
        std::pair(LinearRole::kDown, n.ff), std::pair(LinearRole::kHead, n.d)}) {
    if (role == LinearRole::kHead && HeadIsEmbedding(shape, storage)) continue;
    status.Update(StoredMatrix::Check(storage.FormatOf(role), columns, storage.group));
  }
  for (const auto& [role, rows] : {std::pair(LinearRole::kQkv, n.q()), std::pair(LinearRole::kQkv, n.kv()),
                                   std::pair(LinearRole::kGateUp, n.ff)}) {
    status.Update(StoredMatrix::CheckJoined(storage.FormatOf(role), rows));
  }
  return status;
}

absl::StatusOr<DecoderConfig> PartOf(const DecoderConfig& config, const Storage& storage, int64_t parts) {
  if (parts == 1) return config;
  const DecoderSizes n(config.shape);
  for (const auto& [count, what] : {std::pair(n.heads, "heads of queries"), std::pair(n.kv_heads, "heads of keys"),
                                    std::pair(n.ff, "features of the feed-forward layers")}) {
    if (count % parts == 0) continue;
    return absl::UnimplementedError(
        absl::StrCat(parts, " ranks cannot divide the model's ", count, " ", what, " evenly"));
  }
  DecoderConfig part = config;
  workload::Transformer& shape = part.shape.base;
  const auto ranks = static_cast<double>(parts);
  shape.head_size = shape.HeadDim();
  shape.kv_heads = shape.KvHeads() / ranks;
  shape.heads /= ranks;
  shape.d_ff /= ranks;
  if (const absl::Status status = CheckStorage(part, storage); !status.ok()) {
    return absl::UnimplementedError(absl::StrCat("divided among ", parts, " ranks: ", status.message()));
  }
  return part;
}

double DecoderWeights::EmbeddingScale() const {
  return at::scalar_tensor(config.embedding_scale, at::dtype(embedding.scalar_type())).item<double>();
}

int64_t DecoderWeights::nbytes() const {
  auto bytes = static_cast<int64_t>(embedding.nbytes() + final_norm.nbytes());
  if (!SharesEmbedding(*this)) bytes += head.nbytes();
  for (const LayerWeights& layer : layers) {
    if (layer.router.weight.defined()) bytes += layer.router.nbytes();
    for (const at::Tensor* vector : LayerVectors(layer)) {
      if (vector->defined()) bytes += static_cast<int64_t>(vector->nbytes());
    }
    for (const StoredMatrix* matrix : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down}) bytes += matrix->nbytes();
  }
  return bytes;
}

absl::Status DecoderWeights::MoveTo(at::Device device) {
  if (absl::Status status = StoredMatrix::CheckDevice(storage.format, device); !status.ok()) return status;
  const bool shares = SharesEmbedding(*this);
  const auto move = [&](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.to(device);
  };
  const auto move_matrix = [&](StoredMatrix& matrix) {
    move(matrix.weight);
    move(matrix.scale);
  };
  if (shares) head.weight = at::Tensor();
  move(embedding);
  move(final_norm);
  if (shares) {
    head.weight = embedding.unsqueeze(0);
  } else {
    move_matrix(head);
  }
  for (LayerWeights& layer : layers) {
    for (at::Tensor* vector : LayerVectors(layer)) move(*vector);
    for (StoredMatrix* matrix : {&layer.qkv, &layer.out, &layer.router, &layer.gate_up, &layer.down}) {
      move_matrix(*matrix);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<DecoderWeights> LoadWeights(const Checkpoint& checkpoint, const Storage& storage,
                                           const ModelPart& part) {
  const absl::StatusOr<DecoderConfig> config = PartOf(checkpoint.config(), storage, part.of);
  if (!config.ok()) return config.status();
  absl::StatusOr<DecoderWeights> made = Allocate(checkpoint.config(), storage, at::kCPU);
  if (!made.ok()) return made.status();
  // The first error ends the reading.
  absl::Status status;
  bool finite = true;
  const auto end_of = [&](const std::string& name) {
    if (status.ok() && !finite) {
      status =
          absl::DataLossError(absl::StrCat("the checkpoint's tensor ", name, " holds weights that are not finite"));
    }
  };
  const auto read = [&](const std::string& name, const auto& take) {
    if (!status.ok()) return;
    status = checkpoint.Read(name, [&](int64_t first, const at::Tensor& rows) {
      finite = finite && IsFinite(rows);
      if (finite) take(first, rows);
    });
    end_of(name);
  };
  constexpr float kMostSteps = 16;  // of a code from its zero
  const auto keep = [&](const std::string& name, StoredMatrix& to, int64_t expert, int64_t row) {
    if (!status.ok()) return;
    status = checkpoint.ReadPacked(name, [&](int64_t first, const PackedRows& rows) {
      finite = finite && IsFinite(rows.scales * kMostSteps);
      if (finite) to.StoreCodes(expert, row + first, rows.codes, rows.scales, rows.zeros);
    });
    end_of(name);
  };
  const auto copy = [&](const std::string& name, const at::Tensor& to) {
    read(name, [&](int64_t first, const at::Tensor& rows) { to.narrow(0, first, rows.size(0)).copy_(rows); });
  };
  const double offset = checkpoint.config().NormOffset();
  const auto copy_norm = [&](const std::string& name, const at::Tensor& to) {
    copy(name, to);
    if (offset != 0) to.add_(offset);
  };
  const auto store = [&](const std::string& name, StoredMatrix& to, int64_t expert, int64_t row) {
    if (to.format == WeightFormat::kInt4 && checkpoint.IsPacked(name)) return keep(name, to, expert, row);
    read(name, [&](int64_t first, const at::Tensor& rows) { to.Store(expert, row + first, rows); });
  };
  copy(tensor_names::kEmbedding, made->embedding);
  copy_norm(tensor_names::kFinalNorm, made->final_norm);
  const workload::Decoder& shape = checkpoint.config().shape;
  const DecoderSizes n(shape);
  struct Projection {
    const char* name;
    int64_t first;
    int64_t rows;
  };
  const Projection projections[] = {{"self_attn.q_proj", 0, n.q()},
                                    {"self_attn.k_proj", n.q(), n.kv()},
                                    {"self_attn.v_proj", n.q() + n.kv(), n.kv()}};
  const auto read_layer = [&](LayerWeights& layer, int64_t index) {
    const auto module = [&](const char* name) { return tensor_names::OfLayer(index, name); };
    copy_norm(module("input_layernorm"), layer.attention_norm);
    // The same name, but with output_norms the norm is at another place.
    copy_norm(module("post_attention_layernorm"), shape.output_norms ? layer.attention_out_norm : layer.mlp_norm);
    if (shape.output_norms) {
      copy_norm(module("pre_feedforward_layernorm"), layer.mlp_norm);
      copy_norm(module("post_feedforward_layernorm"), layer.mlp_out_norm);
    }
    store(module("self_attn.o_proj"), layer.out, 0, 0);
    if (shape.output_bias) copy(tensor_names::BiasOfLayer(index, "self_attn.o_proj"), layer.out_bias);
    if (checkpoint.config().joined_products) {
      store(module("self_attn.qkv_proj"), layer.qkv, 0, 0);
      store(module("mlp.gate_up_proj"), layer.gate_up, 0, 0);
      store(module("mlp.down_proj"), layer.down, 0, 0);
      return;
    }
    for (const auto& [name, first, rows] : projections) {
      store(module(name), layer.qkv, 0, first);
      if (shape.attention_bias) {
        copy(tensor_names::BiasOfLayer(index, name), layer.qkv_bias.narrow(0, first, rows));
      }
    }
    if (shape.head_norms) {
      copy_norm(module("self_attn.q_norm"), layer.query_norm);
      copy_norm(module("self_attn.k_norm"), layer.key_norm);
    }
    if (!shape.IsMixture()) {
      store(module("mlp.gate_proj"), layer.gate_up, 0, 0);
      store(module("mlp.up_proj"), layer.gate_up, 0, n.ff);
      store(module("mlp.down_proj"), layer.down, 0, 0);
      return;
    }
    store(module("block_sparse_moe.gate"), layer.router, 0, 0);
    for (int64_t expert = 0; expert < n.experts; ++expert) {
      const auto of = [&](const char* matrix) { return tensor_names::OfExpert(index, expert, matrix); };
      store(of("w1"), layer.gate_up, expert, 0);
      store(of("w3"), layer.gate_up, expert, n.ff);
      store(of("w2"), layer.down, expert, 0);
    }
  };
  for (int64_t i = 0; i < n.layers; ++i) {
    LayerWeights layer = EmptyLayer(checkpoint.config(), storage, at::kCPU);
    read_layer(layer, i);
    made->layers.push_back(PartOf(std::move(layer), n, part));
  }
  if (!SharesEmbedding(*made)) {
    store(shape.base.tied_head ? tensor_names::kEmbedding : tensor_names::kHead, made->head, 0, 0);
  }
  if (!status.ok()) return status;
  made->config = *config;
  return made;
}

absl::StatusOr<DecoderWeights> RandomWeights(const DecoderConfig& config, const Storage& storage, uint64_t seed,
                                             at::Device device, const ModelPart& part) {
  const absl::StatusOr<DecoderConfig> config_of_part = PartOf(config, storage, part.of);
  if (!config_of_part.ok()) return config_of_part.status();
  if (absl::Status status = StoredMatrix::CheckDevice(storage.format, device); !status.ok()) return status;
  absl::StatusOr<DecoderWeights> made = Allocate(config, storage, device);
  if (!made.ok()) return made.status();
  const auto fill = [&](StoredMatrix& matrix, double gain) {
    matrix.FillRandom(seed++, gain / std::sqrt(static_cast<double>(matrix.columns)));
  };
  // The layers together at most double the residual.
  const double added = 1 / std::sqrt(2 * config.shape.base.layers);
  StoredMatrix embedding{.format = storage.Unquantized(), .weight = made->embedding};
  embedding.columns = SharesEmbedding(*made) ? made->embedding.size(1) : 1;
  fill(embedding, 1);
  const DecoderSizes n(config.shape);
  for (int64_t i = 0; i < n.layers; ++i) {
    LayerWeights layer = EmptyLayer(config, storage, device);
    fill(layer.qkv, 1);
    fill(layer.out, added);
    if (layer.router.weight.defined()) fill(layer.router, 1);
    fill(layer.gate_up, 1);
    fill(layer.down, added);
    made->layers.push_back(PartOf(std::move(layer), n, part));
  }
  if (!SharesEmbedding(*made)) fill(made->head, 1);
  made->config = *config_of_part;
  return made;
}

}  // namespace roofbench::models
