// SPDX-License-Identifier: Apache-2.0
// The formulas of lib/workload.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/workload/cost.h"
#include "lib/workload/models/decoder.h"
#include "lib/workload/models/mlp.h"
#include "lib/workload/models/transformer.h"
#include "lib/workload/operators/attention.h"
#include "lib/workload/operators/elementwise.h"
#include "lib/workload/operators/products.h"
#include "lib/workload/operators/rows.h"
#include "python/bindings/bindings.h"

namespace roofbench::python {

namespace nb = nanobind;
using namespace nb::literals;
using workload::Cost;
using workload::Operation;

workload::Dtype DtypeNamed(std::string_view name) {
  if (const auto dtype = workload::ParseDtype(name)) return *dtype;
  std::vector<std::string_view> names;
  for (const workload::Dtype dtype : workload::kDtypes) names.push_back(workload::Name(dtype));
  RefuseName("dtype", name, names);
}

namespace {

using FlopsByName = std::map<std::string, double>;

double Amount(double value, const char* what) {
  if (value >= 0 && value <= 1e100) return value;
  throw std::invalid_argument(std::string(what) + "=" + nb::repr(nb::float_(value)).c_str() +
                              ": expected a number from 0 to 1e100");
}

void MakeCost(Cost* cost, const FlopsByName& flops, double read, double written, double updated,
              std::optional<double> resident) {
  Operation operation{.bytes_read = Amount(read, "bytes_read"),
                      .bytes_written = Amount(written, "bytes_written"),
                      .bytes_updated = Amount(updated, "bytes_updated")};
  for (const auto& [name, count] : flops) {
    operation.flops[workload::Index(DtypeNamed(name))] += Amount(count, "flops");
  }
  new (cost) Cost(workload::InOperands(operation));
  if (resident) cost->resident_bytes = Amount(*resident, "resident_bytes");
}

FlopsByName FlopsOf(const Cost& cost) {
  FlopsByName flops;
  for (const workload::Dtype dtype : workload::kDtypes) {
    if (cost.Flops(dtype) > 0) flops[std::string(Name(dtype))] = cost.Flops(dtype);
  }
  return flops;
}

bool IsBackward(const std::string& direction) {
  if (direction != "forward" && direction != "backward") {
    RefuseName("direction", direction, std::array{"forward", "backward"});
  }
  return direction == "backward";
}

// Operators with a gradient.
template <typename Op>
Cost DirectedCost(const Op& op, const std::string& direction) {
  return workload::InOperands(IsBackward(direction) ? op.Backward() : op.Forward());
}

workload::WeightFormat FormatNamed(const std::string& name) {
  if (const auto format = workload::ParseWeightFormat(name)) return *format;
  std::vector<std::string_view> names;
  for (const workload::WeightFormat format : workload::kWeightFormats) names.push_back(Name(format));
  RefuseName("precision", name, names);
}

Cost AttentionCost(double queries, double keys, double head_dim, const std::string& dtype, double heads,
                   double kv_heads, double batch, bool causal, const std::string& direction, bool naive) {
  const workload::Attention attention = {.batch = batch,
                                         .heads = heads,
                                         .kv_heads = kv_heads > 0 ? kv_heads : heads,
                                         .queries = queries,
                                         .keys = keys,
                                         .head_dim = head_dim,
                                         .causal = causal,
                                         .dtype = DtypeNamed(dtype)};
  if (IsBackward(direction)) return naive ? attention.NaiveBackwardCost() : attention.FusedBackwardCost();
  return naive ? attention.NaiveCost() : attention.FusedCost();
}

template <workload::NormKind kKind>
Cost NormCost(double rows, double cols, const std::string& dtype, const std::string& direction) {
  return DirectedCost(workload::Norm{.kind = kKind, .rows = rows, .cols = cols, .dtype = DtypeNamed(dtype)}, direction);
}

Cost TrainingCost(const std::string& size, double batch, double context, const std::string& compute,
                  const std::string& storage, const std::string& mode) {
  const auto shape = workload::FindTransformer(size);
  if (!shape) {
    std::vector<std::string_view> names;
    for (const workload::TransformerPreset& preset : workload::kTransformerPresets) names.push_back(preset.name);
    RefuseName("size", size, names);
  }
  constexpr std::array kModes = {"inference", "forward", "forward_backward", "step"};
  const auto found = std::find(kModes.begin(), kModes.end(), mode);
  if (found == kModes.end()) RefuseName("mode", mode, kModes);
  workload::TransformerTraining training{.shape = *shape, .batch = batch, .context = context};
  training.compute = DtypeNamed(compute);
  training.storage = DtypeNamed(storage);
  return training.Step(static_cast<workload::TrainingMode>(found - kModes.begin()));
}

workload::StoredDecoder DecoderNamed(const std::string& model, const std::string& precision) {
  const workload::DecoderPreset* const preset = workload::FindDecoderPreset(model);
  if (preset != nullptr) return {.shape = preset->shape, .format = FormatNamed(precision)};
  std::vector<std::string_view> names;
  for (const workload::DecoderPreset& one : workload::DecoderPresets()) names.push_back(one.name);
  RefuseName("model", model, names);
}

}  // namespace

void BindCosts(nb::module_& core) {
  nb::list dtypes;
  for (const workload::Dtype dtype : workload::kDtypes) dtypes.append(std::string(Name(dtype)));
  core.attr("DTYPES") = nb::tuple(dtypes);

  nb::class_<Cost>(core, "Cost")
      .def("__init__", MakeCost, "flops"_a = FlopsByName(), nb::kw_only(), "bytes_read"_a = 0, "bytes_written"_a = 0,
           "bytes_updated"_a = 0, "resident_bytes"_a = nb::none())
      .def_prop_ro("flops", FlopsOf)
      .def_prop_ro("total_flops", [](const Cost& cost) { return cost.Flops(); })
      .def_prop_ro("bytes", &Cost::Bytes)
      .def_prop_ro("bytes_read", &Cost::BytesRead)
      .def_prop_ro("bytes_written", &Cost::BytesWritten)
      .def_prop_ro("bytes_updated", &Cost::BytesUpdated)
      .def_ro("resident_bytes", &Cost::resident_bytes)
      .def(
          "repeated", [](const Cost& cost, double times) { return workload::Repeated(cost, Amount(times, "times")); },
          "times"_a)
      .def("__add__",
           [](const Cost& cost, const Cost& other) {
             Cost sum = cost;
             sum += other;
             return sum;
           })
      .def("__repr__", [](const Cost& cost) {
        return "Cost(" + std::to_string(cost.Flops()) + " FLOP, " + std::to_string(cost.Bytes()) + " bytes)";
      });

  core.def(
      "matmul",
      [](double m, double n, double k, const std::string& dtype) {
        return workload::Gemm{.m = m, .n = n, .k = k, .dtype = DtypeNamed(dtype)}.ForwardCost();
      },
      "m"_a, "n"_a, "k"_a, "dtype"_a);
  const auto gemv = [](double n, double k, const std::string& precision, double group, double batch) {
    return workload::Gemv{.n = n, .k = k, .format = FormatNamed(precision), .group = group, .batch = batch};
  };
  core.def(
      "gemv",
      [gemv](double n, double k, const std::string& precision, double group, double batch) {
        return gemv(n, k, precision, group, batch).ForwardCost();
      },
      "n"_a, "k"_a, "precision"_a, nb::kw_only(), "group"_a = 64, "batch"_a = 1);
  core.def(
      "gather_gemv",
      [gemv](double n, double k, const std::string& precision, double chosen, double experts, double group) {
        return workload::GatherGemv{.expert = gemv(n, k, precision, group, 1), .chosen = chosen, .experts = experts}
            .ForwardCost();
      },
      "n"_a, "k"_a, "precision"_a, nb::kw_only(), "chosen"_a, "experts"_a, "group"_a = 64);
  core.def(
      "llm_int8_linear",
      [](double m, double n, double k, double outlier_columns) {
        return workload::LlmInt8Linear{.m = m, .n = n, .k = k, .outlier_columns = outlier_columns}.FusedCost();
      },
      "m"_a, "n"_a, "k"_a, "outlier_columns"_a);
  core.def("attention", AttentionCost, "queries"_a, "keys"_a, "head_dim"_a, "dtype"_a, nb::kw_only(), "heads"_a = 1,
           "kv_heads"_a = 0, "batch"_a = 1, "causal"_a = false, "direction"_a = "forward", "naive"_a = false);
  core.def("layer_norm", NormCost<workload::NormKind::kLayer>, "rows"_a, "cols"_a, "dtype"_a, nb::kw_only(),
           "direction"_a = "forward");
  core.def("rms_norm", NormCost<workload::NormKind::kRms>, "rows"_a, "cols"_a, "dtype"_a, nb::kw_only(),
           "direction"_a = "forward");
  core.def(
      "softmax",
      [](double rows, double cols, const std::string& dtype, const std::string& direction) {
        return DirectedCost(workload::Softmax{.rows = rows, .cols = cols, .dtype = DtypeNamed(dtype)}, direction);
      },
      "rows"_a, "cols"_a, "dtype"_a, nb::kw_only(), "direction"_a = "forward");
  core.def(
      "cross_entropy",
      [](double rows, double cols, const std::string& dtype, bool gradient) {
        const workload::CrossEntropy loss = {.rows = rows, .cols = cols, .dtype = DtypeNamed(dtype)};
        return gradient ? loss.ForwardBackwardCost() : loss.ForwardCost();
      },
      "rows"_a, "cols"_a, "dtype"_a, nb::kw_only(), "gradient"_a = false);
  core.def(
      "gelu",
      [](double elements, const std::string& dtype, const std::string& direction) {
        return DirectedCost(workload::Gelu{.elements = elements, .dtype = DtypeNamed(dtype)}, direction);
      },
      "elements"_a, "dtype"_a, nb::kw_only(), "direction"_a = "forward");
  core.def(
      "silu_mul",
      [](double elements, const std::string& dtype) {
        return workload::SiluMul{.elements = elements, .dtype = DtypeNamed(dtype)}.ForwardCost();
      },
      "elements"_a, "dtype"_a);
  core.def(
      "rope",
      [](double heads, double tokens, double head_dim, const std::string& dtype) {
        return workload::Rope{.heads = heads, .tokens = tokens, .head_dim = head_dim, .dtype = DtypeNamed(dtype)}
            .ForwardCost();
      },
      "heads"_a, "tokens"_a, "head_dim"_a, "dtype"_a);
  core.def(
      "embedding",
      [](double vocabulary, double tokens, double cols, const std::string& dtype) {
        return workload::Embedding{.vocabulary = vocabulary, .tokens = tokens, .cols = cols, .dtype = DtypeNamed(dtype)}
            .ForwardCost();
      },
      "vocabulary"_a, "tokens"_a, "cols"_a, "dtype"_a);
  core.def(
      "adamw", [](double parameters) { return workload::AdamW{parameters}.StepCost(); }, "parameters"_a);
  core.def(
      "read", [](double size) { return workload::ReadStream{size}.Cost(); }, "size"_a);
  core.def(
      "copy", [](double size) { return workload::CopyStream{size}.Cost(); }, "size"_a);
  core.def(
      "mlp_training",
      [](double batch, double width, double layers, const std::string& dtype) {
        const workload::Mlp mlp = {.batch = batch, .width = width, .layers = layers, .compute = DtypeNamed(dtype)};
        return mlp.TrainingCost(/*steps=*/1);
      },
      "batch"_a, "width"_a, "layers"_a, "dtype"_a);
  core.def("transformer_training", TrainingCost, "size"_a, "batch"_a, "context"_a, nb::kw_only(), "compute"_a = "fp32",
           "storage"_a = "fp32", "mode"_a = "step");
  core.def(
      "decoder_prefill",
      [](const std::string& model, const std::string& precision, double prompt, double batch) {
        return DecoderNamed(model, precision).PrefillCost(batch, prompt, prompt);
      },
      "model"_a, "precision"_a, "prompt"_a, nb::kw_only(), "batch"_a = 1);
  core.def(
      "decoder_decode",
      [](const std::string& model, const std::string& precision, double depth, double batch) {
        return DecoderNamed(model, precision).DecodeCost(batch, depth, depth + 1);
      },
      "model"_a, "precision"_a, "depth"_a, nb::kw_only(), "batch"_a = 1);
}

}  // namespace roofbench::python
