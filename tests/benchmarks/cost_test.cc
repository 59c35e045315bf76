// SPDX-License-Identifier: Apache-2.0
// The cost that a family states, compared with independent counts: the products that LibTorch's operators compute in a
// step, nominal operations per element, and the bytes of tensors.
//
// A figure must be within an octave of its bound, from three quarters of it to three halves: half of a figure that is,
// and twice as much, are not.

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lib/cases/point.h"
#include "lib/device/cpu_device.h"
#include "lib/observe/profile/operator_work.h"
#include "lib/observe/profile/recorder.h"
#include "lib/suite/inputs.h"
#include "tests/benchmarks/every_case.h"
#include "tests/benchmarks/small_points.h"
#include "tests/suite/run_once.h"

namespace roofbench {
namespace {

bool WithinAnOctave(double figure, double bound) {
  return bound == 0 ? figure == 0 : figure >= 0.75 * bound && figure < 1.5 * bound;
}

// The measurements of a step of LibTorch's operators.
struct Seen {
  double operand_bytes = 0;  // of all tensors that were made for it
  double product_bytes = 0;  // of the operands of its products
  double product_flops = 0;
};

std::optional<Seen> See(const Family& family, const Point& point) {
  CpuDevice device(1);
  if (!family.SupportOf(point, device).ok()) return std::nullopt;
  Inputs inputs(device, 0, point.Name());
  const auto built = family.BuildAt(point, inputs);
  if (!built.ok()) return std::nullopt;
  const at::AutoGradMode grad(built->autograd);
  RunOnce(*built);  // the first step of some packs weights
  observe::Recorder recorder(/*on_gpu=*/false);
  RunOnce(*built);
  Seen seen{.operand_bytes = inputs.bytes()};
  for (const observe::ProfiledEvent& event : recorder.Finish()) {
    const observe::WorkKind kind = observe::KindOfWork(event.name);
    if (kind != observe::WorkKind::kProduct && kind != observe::WorkKind::kAttention) continue;
    if (event.flops <= 0) continue;  // it calls another, which is counted
    seen.product_flops += event.flops;
    seen.product_bytes += event.input_bytes;
  }
  return seen;
}

// The same work by operators that are seen, in tensors whose bytes the profiler knows.
struct Twin {
  const Family* family;
  Point point;
};

Twin TwinOf(const Family& family, Point point) {
  // Without a checkpoint they take one token of a model, and score two.
  for (const auto& [name, tokens] : {std::pair{"complete", "3"}, {"quality", "2"}}) {
    if (family.name() != name) continue;
    const Family& generate = FamilyNamed("generate");
    const Point one = generate.Points()[0].With("model", "tiny_llama").With("prompt", "1");
    const std::string precision = point.Text("precision");
    return TwinOf(generate, one.With("batch", "1").With("new", tokens).With("precision", precision));
  }
  // LibTorch multiplies fp8 as it is where it can, in a product whose operations it does not count.
  if (family.name() == "fp8_linear") {
    const Family& matmul = FamilyNamed("matmul");
    const Point fp32 = matmul.Points()[0].With(kImplAxis, "eager").With("dtype", "fp32");
    return {&matmul, fp32.With("m", point.Text("rows")).With("n", point.Text("n")).With("k", point.Text("k"))};
  }
  const auto set = [&](std::string_view axis, const std::string& value) {
    if (point.Has(axis)) point = point.With(axis, value);
  };
  if (point.Has("model") && point.Has("precision") && point.Text("precision") != "fp32") {
    set("precision", "bf16");
    set("activations", "default");
  }
  if (point.Has("page")) {
    set("page", "none");
    if (point.Text("dtype") == "int8") set("dtype", "bf16");
  }
  set(kThreadsAxis, "0");
  set("scales", "tensor");  // no others on a processor
  if (point.Has("dtype") && point.Text("dtype") == "fp8") set("dtype", "fp32");
  if (point.Has("backend") && point.Text("backend") != "math") set("backend", "auto");
  const bool is_norm = family.name() == "layer_norm" || family.name() == "rms_norm";
  if (point.Has(kImplAxis)) {
    const std::string& impl = point.Text(kImplAxis);
    if (is_norm) {
      set(kImplAxis, "native");  // operators refuse bf16 on some devices, and make tensors that are not counted
    } else if (impl == "native" || impl == "graph" || impl == "onednn") {
      const std::vector<std::string>& choices = family.axes().front().choices;
      for (const char* operators : {"eager", "sdpa", "single"}) {
        if (std::find(choices.begin(), choices.end(), operators) != choices.end()) set(kImplAxis, operators);
      }
    }
  }
  return {&family, point};
}

const std::optional<Seen>& SeenAt(const Twin& twin) {
  static std::map<std::string, std::optional<Seen>> all;
  const auto [found, is_new] = all.try_emplace(twin.point.Name());
  if (is_new) found->second = See(*twin.family, twin.point);
  return found->second;
}

// Operations per element, for families without matrix products.
struct NominalRow {
  std::string_view family;
  std::string_view pass;  // empty: the only one
  double flops;
};
constexpr NominalRow kNominal[] = {{"adamw", "", 14},
                                   {"copy", "", 0},
                                   {"cross_entropy", kForward, 4},
                                   {"cross_entropy", kForwardBackward, 6},
                                   {"embedding", "", 0},
                                   {"gelu", "", 8},
                                   {"harness_overhead", "", 0},
                                   {"layer_norm", kForward, 8},
                                   {"layer_norm", kBackward, 16},
                                   {"read", "", 0},
                                   {"rms_norm", kForward, 4},
                                   {"rms_norm", kBackward, 8},
                                   {"rope", "", 3},
                                   {"silu_mul", "", 6},
                                   {"softmax", "", 5},
                                   {"update", "", 0},
                                   {"write", "", 0}};

double ElementsAt(const Point& point) {
  double elements = 1;
  for (const AxisSpec& axis : point.axes()) {
    if (axis.choices.empty() && axis.name != "bytes") elements *= point.Number(axis.name);
  }
  return elements;
}

// The share of query-key pairs that a step computes: operators are counted with all pairs.
double SeenPairs(const Point& point) {
  if (point.family() != "attention" || point.Text("mask") != "causal") return 1;
  if (point.Text(kImplAxis) == "naive" || point.Text("backend") == "math") return 1;
  return (point.Number("keys") + 1) / (2 * point.Number("keys"));
}

double BoundOfFlops(const Point& point, const Seen& seen) {
  for (const NominalRow& row : kNominal) {
    if (point.family() != row.family || (!row.pass.empty() && point.Text(kPassAxis) != row.pass)) continue;
    return row.flops == 0 ? 0 : row.flops * ElementsAt(point);
  }
  return SeenPairs(point) * seen.product_flops;
}

// The ratio of a cost's bytes to the bytes that were seen, where it is not near 1: weights in less than 16 bits,
// intermediates between products, and data that is read once for several sequences but is an operand of each of them.
struct ShareRow {
  std::string_view family;
  std::string_view part;  // of the name
  double share;
};
constexpr ShareRow kShares[] = {{"attention", "impl:naive/pass:", 1.5},
                                {"attention", "impl:naive", 2.5},
                                {"decode_attention", "dtype:int8", 0.55},
                                {"fp8_linear", "", 0.42},  // x and y in bf16
                                {"matmul", "dtype:fp8", 0.33},
                                {"mlp", "", 3},
                                {"published", "int8", 0.85},
                                {"published", "_batch", 0.7},
                                {"train_step", "", 3.3},
                                // All that have a model.
                                {"", "/precision:int4", 0.28},
                                {"", "/precision:int8", 0.5},
                                {"", "/precision:fp8", 0.5},
                                {"", "/precision:llm_int8", 0.5}};

double ShareOf(const Point& point, bool has_model) {
  const std::string name = point.Name();
  for (const ShareRow& row : kShares) {
    const bool is_of = row.family.empty() ? has_model : row.family == point.family();
    if (is_of && name.find(row.part) != std::string::npos) return row.share;
  }
  return 1;
}

double BoundOfBytes(const Point& point, bool has_model, const Seen& seen) {
  if (point.family() == "first_touch") return point.Number("bytes");  // of memory that is no tensor's
  return ShareOf(point, has_model) * (seen.product_bytes > 0 ? seen.product_bytes : seen.operand_bytes);
}

// Each operand once where all of them are seen; else as cost and operators count them.
double BytesToHold(const workload::Cost& cost, const Seen& seen) {
  if (seen.product_bytes > 0) return cost.Bytes();
  return cost.BytesRead() + cost.BytesWritten() + cost.BytesUpdated();
}

class CostTest : public testing::TestWithParam<PlannedCase> {};

TEST_P(CostTest, IsWhatTheStepDoes) {
  const PlannedCase& planned = GetParam();
  const workload::Cost cost = planned.family->CostOf(planned.point);
  if (cost.array_bytes > 0) return;                             // tests/workload/collectives_test.cc
  if (planned.family->name() == "arithmetic") return;           // tests/hardware/roofs/compute_loops_test.cc
  if (cost.operations.empty() && cost.in_sequence > 0) return;  // latencies alone: no work that has a roof
  const Twin twin = TwinOf(*planned.family, planned.point);
  const std::optional<Seen>& seen = SeenAt(twin);
  ASSERT_TRUE(seen.has_value()) << twin.point.Name() << " cannot be built";
  const double flops = BoundOfFlops(planned.point, *seen);
  EXPECT_PRED2(WithinAnOctave, cost.Flops(), flops)
      << "FLOPs of " << twin.point.Name()
      << "; of a family without products, its FLOPs for an element are a row of kNominal in this file";
  const double bytes = BoundOfBytes(planned.point, twin.point.Has("model"), *seen);
  EXPECT_PRED2(WithinAnOctave, BytesToHold(cost, *seen), bytes) << "bytes of " << twin.point.Name();
}

INSTANTIATE_TEST_SUITE_P(Families, CostTest, testing::ValuesIn(SmallPoints()), TestNameOf);

}  // namespace
}  // namespace roofbench
