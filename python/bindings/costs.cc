// SPDX-License-Identifier: Apache-2.0
// The formulas of lib/workload.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>

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
using namespace std::literals;
using workload::Cost;
using workload::Operation;

workload::Dtype DtypeNamed(std::string_view name) {
  return RowNamed("dtype", name, workload::kDtypes, [](workload::Dtype dtype) { return workload::Name(dtype); });
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

workload::WeightFormat FormatNamed(const std::string& name) {
  return RowNamed("precision", name, workload::kWeightFormats, [](workload::WeightFormat one) { return Name(one); });
}

// A size or a number of things.
double Size(double value) { return Amount(value, "size"); }

void Set(double& field, double value) { field = Size(value); }
void Set(workload::Dtype& field, const std::string& name) { field = DtypeNamed(name); }
void Set(workload::WeightFormat& field, const std::string& name) { field = FormatNamed(name); }

// The type of a field of an operator in Python: a number, or the name of a dtype or a format.
template <typename Op, auto kField>
using Given = std::conditional_t<std::is_same_v<decltype(kField), double Op::*>, double, std::string>;

// A function whose arguments are fields of an operator. The other fields are those of `base`.
template <auto... kFields, typename Op, typename Work, typename... Extra>
void Formula(nb::module_& core, const char* name, Op base, Work work, const Extra&... extra) {
  const auto formula = [base, work](Given<Op, kFields>... given) {
    Op op = base;
    (Set(op.*kFields, given), ...);
    return std::invoke(work, op);
  };
  core.def(name, formula, extra...);
}

bool IsBackward(const std::string& direction) {
  return RowNamed("direction", direction, std::to_array({"forward", "backward"})) == "backward"sv;
}

// The same of an operator that has a gradient.
template <auto... kFields, typename Op, typename... Extra>
void Directed(nb::module_& core, const char* name, Op base, const Extra&... extra) {
  const auto formula = [base](Given<Op, kFields>... given, const std::string& direction) {
    Op op = base;
    (Set(op.*kFields, given), ...);
    return workload::InOperands(IsBackward(direction) ? op.Backward() : op.Forward());
  };
  core.def(name, formula, extra..., nb::kw_only(), "direction"_a = "forward", "direction: forward, backward");
}

Cost AttentionCost(double queries, double keys, double head_dim, const std::string& dtype, double heads,
                   double kv_heads, double batch, bool causal, const std::string& direction, bool naive) {
  const workload::Attention attention = {.batch = Size(batch),
                                         .heads = Size(heads),
                                         .kv_heads = Size(kv_heads) > 0 ? kv_heads : heads,
                                         .queries = Size(queries),
                                         .keys = Size(keys),
                                         .head_dim = Size(head_dim),
                                         .causal = causal,
                                         .dtype = DtypeNamed(dtype)};
  if (IsBackward(direction)) return naive ? attention.NaiveBackwardCost() : attention.FusedBackwardCost();
  return naive ? attention.NaiveCost() : attention.FusedCost();
}

Cost TrainingCost(const std::string& size, double batch, double context, const std::string& compute,
                  const std::string& storage, const std::string& mode) {
  constexpr std::array kModes = {"inference", "forward", "forward_backward", "step"};
  const auto& shape = RowNamed("size", size, workload::kTransformerPresets, &workload::TransformerPreset::name).shape;
  workload::TransformerTraining training{.shape = shape, .batch = Size(batch), .context = Size(context)};
  training.compute = DtypeNamed(compute);
  training.storage = DtypeNamed(storage);
  return training.Step(static_cast<workload::TrainingMode>(&RowNamed("mode", mode, kModes) - kModes.data()));
}

workload::StoredDecoder DecoderNamed(const std::string& model, const std::string& precision) {
  const auto& preset = RowNamed("model", model, workload::DecoderPresets(), &workload::DecoderPreset::name);
  return {.shape = preset.shape, .format = FormatNamed(precision)};
}

}  // namespace

void BindCosts(nb::module_& core) {
  nb::class_<Cost>(core, "Cost", "The work of one step. Costs add up")
      .def("__init__", MakeCost, "flops"_a = FlopsByName(), nb::kw_only(), "bytes_read"_a = 0, "bytes_written"_a = 0,
           "bytes_updated"_a = 0, "resident_bytes"_a = nb::none(),
           "bytes_updated are changed in place: each is read once and written once. resident_bytes, by default all, is "
           "the memory alive at the peak of a step: warm work is compared with the cache that holds it")
      .def_prop_ro("flops", FlopsOf, "By dtype of the multiplier, without those at 0")
      .def_prop_ro("total_flops", [](const Cost& cost) { return cost.Flops(); })
      .def_prop_ro("bytes", &Cost::Bytes, "Read + written + 2 x updated")
      .def_prop_ro("bytes_read", &Cost::BytesRead)
      .def_prop_ro("bytes_written", &Cost::BytesWritten)
      .def_prop_ro("bytes_updated", &Cost::BytesUpdated)
      .def_ro("resident_bytes", &Cost::resident_bytes)
      .def(
          "repeated", [](const Cost& cost, double times) { return workload::Repeated(cost, Amount(times, "times")); },
          "times"_a, "Operations repeat, resident memory does not grow")
      .def("__add__",
           [](const Cost& cost, const Cost& other) {
             Cost sum = cost;
             sum += other;
             return sum;
           })
      .def("__repr__", [](const Cost& cost) {
        return "Cost(" + std::to_string(cost.Flops()) + " FLOP, " + std::to_string(cost.Bytes()) + " bytes)";
      });

  using workload::AdamW, workload::Embedding, workload::Gelu, workload::Gemm, workload::Gemv, workload::Mlp;
  using workload::CopyStream, workload::CrossEntropy, workload::ReadStream, workload::Softmax;
  using workload::LlmInt8Linear, workload::Norm, workload::NormKind, workload::Rope, workload::SiluMul;
  Formula<&Gemm::m, &Gemm::n, &Gemm::k, &Gemm::dtype>(core, "matmul", Gemm(), &Gemm::ForwardCost, "m"_a, "n"_a, "k"_a,
                                                      "dtype"_a, "C[m,n] = A[m,k] · B[k,n]");
  Formula<&Gemv::n, &Gemv::k, &Gemv::format, &Gemv::group, &Gemv::batch>(
      core, "gemv", Gemv(), &Gemv::ForwardCost, "n"_a, "k"_a, "precision"_a, nb::kw_only(), "group"_a = 64,
      "batch"_a = 1,
      "y = W[n,k] · x; precision is a weight format: fp32, bf16, fp16, int8, int4 (in groups), llm_int8, fp8");
  core.def(
      "gather_gemv",
      [](double n, double k, const std::string& precision, double chosen, double experts, double group) {
        const Gemv expert = {.n = Size(n), .k = Size(k), .format = FormatNamed(precision), .group = Size(group)};
        return workload::GatherGemv{.expert = expert, .chosen = Size(chosen), .experts = Size(experts)}.ForwardCost();
      },
      "n"_a, "k"_a, "precision"_a, nb::kw_only(), "chosen"_a, "experts"_a, "group"_a = 64,
      "y[e] = W[e] · x for the chosen experts");
  Formula<&LlmInt8Linear::m, &LlmInt8Linear::n, &LlmInt8Linear::k, &LlmInt8Linear::outlier_columns>(
      core, "llm_int8_linear", LlmInt8Linear(), &LlmInt8Linear::FusedCost, "m"_a, "n"_a, "k"_a, "outlier_columns"_a,
      "A linear layer by LLM.int8()");
  core.def("attention", AttentionCost, "queries"_a, "keys"_a, "head_dim"_a, "dtype"_a, nb::kw_only(), "heads"_a = 1,
           "kv_heads"_a = 0, "batch"_a = 1, "causal"_a = false, "direction"_a = "forward", "naive"_a = false,
           "softmax(q · kᵀ / sqrt(d)) · v; naive writes the scores to memory. kv_heads 0: as many as heads");
  Directed<&Norm::rows, &Norm::cols, &Norm::dtype>(core, "layer_norm", Norm(), "rows"_a, "cols"_a, "dtype"_a);
  Directed<&Norm::rows, &Norm::cols, &Norm::dtype>(core, "rms_norm", Norm{.kind = NormKind::kRms}, "rows"_a, "cols"_a,
                                                   "dtype"_a);
  Directed<&Softmax::rows, &Softmax::cols, &Softmax::dtype>(core, "softmax", Softmax(), "rows"_a, "cols"_a, "dtype"_a);
  core.def(
      "cross_entropy",
      [](double rows, double cols, const std::string& dtype, bool gradient) {
        const CrossEntropy loss = {.rows = Size(rows), .cols = Size(cols), .dtype = DtypeNamed(dtype)};
        return gradient ? loss.ForwardBackwardCost() : loss.ForwardCost();
      },
      "rows"_a, "cols"_a, "dtype"_a, nb::kw_only(), "gradient"_a = false,
      "The loss over logits [rows, cols], alone or with its gradient in one pass");
  Directed<&Gelu::elements, &Gelu::dtype>(core, "gelu", Gelu(), "elements"_a, "dtype"_a);
  Formula<&SiluMul::elements, &SiluMul::dtype>(core, "silu_mul", SiluMul(), &SiluMul::ForwardCost, "elements"_a,
                                               "dtype"_a);
  Formula<&Rope::heads, &Rope::tokens, &Rope::head_dim, &Rope::dtype>(core, "rope", Rope(), &Rope::ForwardCost,
                                                                      "heads"_a, "tokens"_a, "head_dim"_a, "dtype"_a);
  Formula<&Embedding::vocabulary, &Embedding::tokens, &Embedding::cols, &Embedding::dtype>(
      core, "embedding", Embedding(), &Embedding::ForwardCost, "vocabulary"_a, "tokens"_a, "cols"_a, "dtype"_a);
  Formula<&AdamW::parameters>(core, "adamw", AdamW(), &AdamW::StepCost, "parameters"_a, "A step over fp32 parameters");
  Formula<&ReadStream::bytes>(core, "read", ReadStream(), &ReadStream::Cost, "size"_a);
  Formula<&CopyStream::bytes>(core, "copy", CopyStream(), &CopyStream::Cost, "size"_a,
                              "Reads `size` bytes and writes as many elsewhere");
  Formula<&Mlp::batch, &Mlp::width, &Mlp::layers, &Mlp::compute>(
      core, "mlp_training", Mlp(), [](const Mlp& mlp) { return mlp.TrainingCost(/*steps=*/1); }, "batch"_a, "width"_a,
      "layers"_a, "dtype"_a, "Forward and backward of layers x (Linear, GELU)");
  core.def("transformer_training", TrainingCost, "size"_a, "batch"_a, "context"_a, nb::kw_only(), "compute"_a = "fp32",
           "storage"_a = "fp32", "mode"_a = "step",
           "A step of a named transformer (small, medium, …); mode: inference, forward, forward_backward, step");
  core.def(
      "decoder_prefill",
      [](const std::string& model, const std::string& precision, double prompt, double batch) {
        return DecoderNamed(model, precision).PrefillCost(Size(batch), Size(prompt), prompt);
      },
      "model"_a, "precision"_a, "prompt"_a, nb::kw_only(), "batch"_a = 1,
      "Reading a prompt, by the shape of a named model (llama3_1b, …; an unknown name lists all)");
  core.def(
      "decoder_decode",
      [](const std::string& model, const std::string& precision, double depth, double batch) {
        return DecoderNamed(model, precision).DecodeCost(Size(batch), Size(depth), depth + 1);
      },
      "model"_a, "precision"_a, "depth"_a, nb::kw_only(), "batch"_a = 1,
      "One token of each sequence with `depth` tokens in the cache before it");
}

}  // namespace roofbench::python
