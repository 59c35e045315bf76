// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/observe/profile/operator_work.h"
#include "lib/observe/profile/report.h"

namespace roofbench::observe {
namespace {

using testing::HasSubstr;

constexpr double kNs = 1e-9;

ProfiledEvent Range(const char* name, int64_t start, int64_t end) {
  return {.name = name, .kind = EventKind::kRange, .thread = 1, .start_ns = start, .end_ns = end};
}
ProfiledEvent Operator(const char* name, int64_t start, int64_t end, double flops = 0) {
  return {.name = name, .thread = 1, .start_ns = start, .end_ns = end, .flops = flops};
}

template <typename Row>
const Row& RowOf(const std::vector<Row>& rows, const std::string& name) {
  static const Row kNothing{};
  for (const Row& row : rows) {
    if (row.name == name) return row;
  }
  ADD_FAILURE() << "missing row " << name;
  return kNothing;
}
const ModuleRow& PartOf(const ProfileTables& tables, const std::string& path) {
  static const ModuleRow kNothing{};
  for (const ModuleRow& row : tables.modules) {
    if (row.path == path) return row;
  }
  ADD_FAILURE() << "missing part " << path;
  return kNothing;
}

// Two equal steps; the operator before them is outside both.
std::vector<ProfiledEvent> TwoSteps() {
  std::vector<ProfiledEvent> events = {Operator("aten::zeros", 0, 50)};
  for (const int64_t at : {100, 1100}) {
    events.push_back(Operator("aten::linear", at + 10, at + 410));
    events.push_back(Operator("aten::mm", at + 20, at + 400, 1000));
    events.push_back(Range("step", at, at + 1000));
    events.push_back(Range("forward", at, at + 900));
    events.push_back(Range("forward", at, at + 900));
    events.push_back(Range("roofbench::softmax", at + 500, at + 800));
  }
  return events;
}

TEST(ProfileTables, SelfTimesAddUpToOneStep) {
  const ProfileTables tables = MakeTables(TwoSteps(), {.steps = 2});
  EXPECT_NEAR(tables.step, 1000 * kNs, 1e-15);
  ASSERT_EQ(tables.operators.size(), 2U);
  EXPECT_EQ(tables.operators[0].name, "aten::mm");
  EXPECT_NEAR(tables.operators[0].self, 380 * kNs, 1e-15);
  EXPECT_NEAR(tables.operators[0].share, 0.38, 1e-9);
  EXPECT_EQ(tables.operators[0].flops, 1000);
  EXPECT_EQ(tables.operators[0].calls, 1);
  EXPECT_NEAR(tables.operators[1].self, 20 * kNs, 1e-15);
  EXPECT_NEAR(tables.operators[1].total, 400 * kNs, 1e-15);
  EXPECT_NEAR(tables.covered, 0.7, 1e-9);
}

TEST(ProfileTables, TimeOnlySpentWhileRecordingIsTheProfilersOwn) {
  EXPECT_NEAR(MakeTables(TwoSteps(), {.steps = 2, .between = 100 * kNs}).own, 0.2, 1e-9);
  EXPECT_NEAR(MakeTables(TwoSteps(), {.steps = 2, .between = 400 * kNs}).own, 0, 1e-9);  // of the 300 that there are
  EXPECT_EQ(MakeTables({}, {.between = 400 * kNs}).own, 0);
}

TEST(ProfileTables, SortsByTheRequestedColumn) {
  EXPECT_EQ(MakeTables(TwoSteps(), {.steps = 2, .sort = "total"}).operators[0].name, "aten::linear");
  EXPECT_EQ(MakeTables(TwoSteps(), {.steps = 2, .sort = "flops"}).operators[0].name, "aten::mm");
}

TEST(ProfileTables, DepthOmitsNestedOperators) {
  const ProfileTables tables = MakeTables(TwoSteps(), {.steps = 2, .depth = 1});
  ASSERT_EQ(tables.operators.size(), 1U);
  EXPECT_EQ(tables.operators[0].name, "aten::linear");
}

TEST(ProfileTables, ListsOurKernelsWithTheOperators) {
  const ProfileTables tables = MakeTables(TwoSteps(), {.steps = 2});
  const KernelRow& ours = RowOf(tables.kernels, "roofbench::softmax");
  EXPECT_EQ(ours.phase, "forward");
  EXPECT_EQ(ours.work, "softmax");
  EXPECT_NEAR(ours.total, 300 * kNs, 1e-15);
  EXPECT_EQ(RowOf(tables.kernels, "aten::mm").work, "product");
}

TEST(ProfileTables, ARangeNestedInItsOwnNameIsTheSamePart) {
  const ProfileTables tables = MakeTables(TwoSteps(), {.steps = 2});
  ASSERT_EQ(tables.modules.size(), 2U);
  EXPECT_EQ(PartOf(tables, "forward").calls, 1);
  EXPECT_NEAR(PartOf(tables, "forward").total, 900 * kNs, 1e-15);
  EXPECT_NEAR(PartOf(tables, "").self, 100 * kNs, 1e-15);
}

TEST(ProfileTables, AStepWithoutRangesIsTheRequestedKernel) {
  const std::vector<ProfiledEvent> events = {Range("step", 0, 100)};
  EXPECT_EQ(MakeTables(events, {.kernel = "gelu native"}).kernels.at(0).name, "roofbench::gelu native");
  EXPECT_NEAR(MakeTables(events, {.kernel = "gelu native"}).covered, 1, 1e-9);
  EXPECT_TRUE(MakeTables(events, {}).kernels.empty());
  EXPECT_EQ(MakeTables(events, {}).covered, 0);
}

TEST(ProfileTables, BackwardFunctionsBelongToTheModuleTheyDifferentiate) {
  ProfiledEvent forward = Operator("aten::mm", 10, 40);
  forward.sequence = 7;
  ProfiledEvent node = Operator("autograd::engine::evaluate_function: MmBackward0", 60, 95);
  node.sequence = 7;
  node.backward = true;
  ProfiledEvent function = Operator("MmBackward0", 61, 94);
  function.sequence = 7;
  function.backward = true;
  const ProfileTables tables =
      MakeTables({Range("step", 0, 100), Range("forward", 0, 50), Range("block 0", 5, 45), Range("mlp", 6, 44), forward,
                  Range("backward", 50, 100), node, function, Operator("aten::mm", 70, 90)},
                 {});
  EXPECT_NEAR(PartOf(tables, "backward/block 0/mlp").total, 35 * kNs, 1e-15);
  EXPECT_NEAR(PartOf(tables, "backward").self, 15 * kNs, 1e-15);
  EXPECT_NEAR(PartOf(tables, "forward/block 0/mlp").total, 38 * kNs, 1e-15);
}

// As a GPU reports them: long after the operator that launched them.
TEST(ProfileTables, GpuKernelsBelongToTheirLaunchers) {
  ProfiledEvent product = Operator("aten::mm", 10, 20, 500);
  product.correlation = 3;
  ProfiledEvent kernel{.name = "ampere_sgemm_128x64_tn", .kind = EventKind::kDeviceKernel, .thread = 7};
  kernel.start_ns = 200;
  kernel.end_ns = 500;
  kernel.correlation = 3;
  kernel.launch = "grid 4x1x1 block 128x1x1";
  ProfiledEvent copy{.name = "Memcpy HtoD", .kind = EventKind::kDeviceKernel, .thread = 7};
  copy.start_ns = 500;
  copy.end_ns = 600;
  const ProfileTables tables = MakeTables(
      {Range("step", 0, 100), Range("forward", 0, 50), Operator("aten::linear", 5, 30), product, kernel, copy}, {});
  EXPECT_NEAR(tables.device, 400 * kNs, 1e-15);
  EXPECT_EQ(tables.operators[0].name, "aten::mm");
  EXPECT_NEAR(tables.operators[0].self_device, 300 * kNs, 1e-15);
  EXPECT_NEAR(tables.operators[0].share, 0.75, 1e-9);
  EXPECT_EQ(RowOf(tables.operators, "aten::linear").self_device, 0);
  EXPECT_NEAR(RowOf(tables.operators, "aten::linear").total_device, 300 * kNs, 1e-15);
  ASSERT_EQ(tables.kernels.size(), 2U);
  EXPECT_EQ(tables.kernels[0].launch, "grid 4x1x1 block 128x1x1");
  EXPECT_EQ(tables.kernels[0].phase, "forward");
  EXPECT_EQ(tables.kernels[0].work, "product");
  EXPECT_EQ(tables.kernels[1].phase, "");
  EXPECT_NEAR(PartOf(tables, "forward").total_device, 300 * kNs, 1e-15);
}

TEST(OperatorWork, CountsFusedAttentionAsTheFlopCounterDoes) {
  const std::vector<int64_t> heads = {2, 3, 5, 7};
  const double product = 2.0 * 2 * 3 * 5 * 5 * 7;
  EXPECT_EQ(OperatorFlops("aten::_scaled_dot_product_flash_attention_for_cpu", {heads, heads, heads}, 0), 2 * product);
  EXPECT_EQ(
      OperatorFlops("aten::_scaled_dot_product_flash_attention_for_cpu_backward", {heads, heads, heads, heads}, 0),
      5 * product);
  EXPECT_EQ(OperatorFlops("mkldnn::_linear_pointwise", {{4, 8}, {16, 8}}, 0), 2.0 * 4 * 8 * 16);
  EXPECT_EQ(OperatorFlops("mkldnn::_linear_pointwise", {{4, 8}, {}}, 0), 0);
  EXPECT_EQ(OperatorFlops("aten::_int_mm", {{4, 8}, {8, 16}}, 0), 2.0 * 4 * 8 * 16);
  EXPECT_EQ(OperatorFlops("aten::_weight_int8pack_mm", {{4, 8}, {16, 8}, {16}}, 0), 2.0 * 4 * 8 * 16);
  EXPECT_EQ(OperatorFlops("aten::_weight_int4pack_mm_for_cpu", {{4, 64}, {16, 32}, {}, {2, 16, 2}}, 0),
            2.0 * 4 * 64 * 16)
      << "two weights share a byte";
  EXPECT_EQ(OperatorFlops("aten::mm", {{4, 8}, {8, 16}}, 1024), 1024);
}

TEST(OperatorWork, CountsTensorBytesOnly) {
  EXPECT_EQ(OperatorInputBytes({{2, 3}, {4}, {}}, {"float", "c10::BFloat16", "Scalar"}), 24 + 8);
  EXPECT_EQ(OperatorInputBytes({{2, 3}}, {"c10::Float8_e4m3fn"}), 6);
  EXPECT_EQ(OperatorInputBytes({{2}}, {"unheard of"}), 0);
}

TEST(OperatorWork, TheNameImpliesTheKindOfWork) {
  EXPECT_EQ(KindOfWork("aten::addmm"), WorkKind::kProduct);
  EXPECT_EQ(KindOfWork("aten::_scaled_mm"), WorkKind::kProduct);
  EXPECT_EQ(KindOfWork("aten::_grouped_mm"), WorkKind::kProduct);
  EXPECT_EQ(KindOfWork("roofbench::llm_int8 product"), WorkKind::kProduct);
  EXPECT_EQ(KindOfWork("roofbench::llm_int8 quantize"), WorkKind::kOther);
  EXPECT_EQ(KindOfWork("aten::_softmax"), WorkKind::kSoftmax);
  EXPECT_EQ(KindOfWork("roofbench::decode_attention"), WorkKind::kAttention);
}

TEST(ProfileReport, AlignsColumnsAndEscapesNames) {
  ProfileTables tables;
  tables.modules = {{.self = 7.11e-6, .share = 1}, {.path = "a\x1b", .depth = 1, .self = 0.297, .share = 0.5}};
  const std::string text = ProfileText({}, tables, {});
  EXPECT_THAT(text, HasSubstr("(step)   7.11 µs  100.0%\n"));
  EXPECT_THAT(text, HasSubstr("  a\\x1b   297 ms   50.0%\n"));
}

TEST(ProfileReport, ReportsTheDifferenceFromTheStopwatch) {
  ProfileTables tables;
  tables.step = 1.03;
  const ProfileFacts facts{
      .timed = 0.9, .stopwatch = 1, .phases = {{.name = "forward", .timed = 0.5, .stopwatch = 0.25}}};
  EXPECT_THAT(ProfileText(facts, tables, {}),
              HasSubstr("profiled 1.03 s (stopwatch 1.00 s, +3.0%), timed 900 ms without"));
  EXPECT_THAT(ProfileJson(facts, tables), HasSubstr("\"stopwatch_ms\": 250.0"));
}

TEST(ProfileReport, ReportsTheSharesOfTheStep) {
  ProfileTables tables;
  tables.step = 0.04;
  tables.covered = 0.89;
  tables.own = 0.08;
  EXPECT_THAT(ProfileText({}, tables, {}),
              HasSubstr("\n89.0% of it in operators and kernels, 8.0% the profiler's own between them, 3.0% between "
                        "them without it, too\n"));
  EXPECT_THAT(ProfileJson({}, tables), HasSubstr("\"profiler_own\": 0.08,"));
}

TEST(ProfileReport, CsvQuotesCommasAndJsonIsUtf8) {
  ProfileTables tables;
  tables.operators.push_back({.name = "a\xff", .shapes = "[2, 3] \"x\"", .self = 0.25});
  EXPECT_THAT(OperatorsCsv(tables), HasSubstr("\"[2, 3] \"\"x\"\"\""));
  EXPECT_THAT(OperatorsCsv(tables), HasSubstr(",250,"));
  EXPECT_THAT(ProfileJson({}, tables), HasSubstr("\"self_ms\": 250.0"));
}

}  // namespace
}  // namespace roofbench::observe
