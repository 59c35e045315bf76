// SPDX-License-Identifier: Apache-2.0
// The cases of our own GPU kernels, as a GPU would run them: with kernels that compute in host memory the results that
// lib/kernels/cuda/gpu_kernels.h specifies, so that the shapes, layouts and types of their arguments follow the header.

#include <ATen/TensorOperators.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/softmax.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "lib/device/gpu_device.h"
#include "lib/kernels/cuda/gpu_kernels.h"
#include "tests/benchmarks/every_case.h"
#include "tests/benchmarks/host_gemv.h"
#include "tests/benchmarks/small_points.h"
#include "tests/device/fake_gpu.h"

namespace roofbench {
namespace {

using kernels::GemvArguments;
using kernels::RowType;

at::ScalarType TypeOf(RowType type) { return type == RowType::kFp32 ? at::kFloat : at::kBFloat16; }

// Time passes on the device, and y is the rounded exact result.
int Finish(void* stream, const at::Tensor& y, const at::Tensor& exact) {
  static_cast<timing::FakeMachine*>(stream)->Launch(10e-6);
  y.copy_(exact);
  return 0;
}

int RmsNorm(RowType type, void* y, const void* x, const float* weight, int64_t rows, int64_t cols, float epsilon,
            void* stream) {
  const at::Tensor exact = HostView(x, {rows, cols}, TypeOf(type)).to(at::kDouble);
  const at::Tensor rms = exact.square().mean(-1, true).add(epsilon).sqrt();
  return Finish(stream, HostView(y, {rows, cols}, TypeOf(type)),
                exact.div(rms).mul(HostView(weight, {cols}, at::kFloat)));
}

int LayerNorm(RowType type, void* y, const void* x, const float* weight, const float* bias, int64_t rows, int64_t cols,
              float epsilon, void* stream) {
  return Finish(stream, HostView(y, {rows, cols}, TypeOf(type)),
                at::layer_norm(HostView(x, {rows, cols}, TypeOf(type)).to(at::kDouble), {cols},
                               HostView(weight, {cols}, at::kFloat).to(at::kDouble),
                               HostView(bias, {cols}, at::kFloat).to(at::kDouble), epsilon));
}

int Softmax(RowType type, void* y, const void* x, int64_t rows, int64_t cols, void* stream) {
  return Finish(stream, HostView(y, {rows, cols}, TypeOf(type)),
                at::softmax(HostView(x, {rows, cols}, TypeOf(type)).to(at::kDouble), -1));
}

int Gemv(const GemvArguments& a, void* stream) {
  static_cast<timing::FakeMachine*>(stream)->Launch(10e-6);
  return HostGemv(a);
}

constexpr kernels::GpuKernels kTable{.version = kernels::kGpuKernelsVersion,
                                     .rms_norm = RmsNorm,
                                     .layer_norm = LayerNorm,
                                     .softmax = Softmax,
                                     .gemv = Gemv};

// The small points that launch the kernels of the table: those of the family with which the device measures its memory
// are not among them.
std::vector<PlannedCase> NativePoints() {
  std::vector<PlannedCase> points;
  for (const PlannedCase& planned : SmallPoints()) {
    const Implementation* const implementation = planned.family->ImplementationOf(planned.point);
    if (implementation != nullptr && implementation->name == "native" && !implementation->kernels.empty()) {
      points.push_back(planned);
      // More vectors than one are of one precision.
      if (planned.family->name() != "gemv" || planned.point.Text("precision") != "int8") continue;
      const Point batch = planned.point.With("batch", "5");
      points.push_back({planned.family, batch, batch.Name()});
    }
  }
  return points;
}

// An empty list would pass every test below.
TEST(GpuNative, FamiliesNameTheirKernels) {
  std::set<std::string_view> kernels;
  for (const PlannedCase& planned : NativePoints()) {
    for (const std::string_view kernel : planned.family->ImplementationOf(planned.point)->kernels) {
      kernels.insert(kernel);
    }
  }
  EXPECT_THAT(kernels, testing::ElementsAre("GemvRows", "LayerNormRows", "RmsNormRows", "SoftmaxRows"));
}

class GpuNativeTest : public testing::TestWithParam<PlannedCase> {
 protected:
  GpuNativeTest() {
    GpuParts parts;
    auto gpu = std::make_unique<FakeGpu>(machine_);
    gpu_ = gpu.get();
    gpu_->exports[kernels::kGpuKernelsSymbol] = &kTable;
    parts.gpu = std::move(gpu);
    parts.torch_device = at::kCPU;
    parts.host_seconds = [this] { return machine_.host; };
    device_ = std::make_unique<GpuDevice>(std::move(parts));
  }

  timing::FakeMachine machine_;
  FakeGpu* gpu_ = nullptr;
  std::unique_ptr<GpuDevice> device_;
  const RunOptions options_ = FewSamples(2, 5);
};

TEST_P(GpuNativeTest, IsRightAndItsCheckFindsFaults) {
  if (IsRightTwice(GetParam(), options_, *device_)) ExpectFaultsFoundAndClonesAlike(GetParam(), options_, *device_);
}

TEST_P(GpuNativeTest, IsSkippedWithoutTheKernels) {
  kernels::GpuKernels other = kTable;
  ++other.version;
  for (const kernels::GpuKernels* table : {static_cast<const kernels::GpuKernels*>(nullptr), &std::as_const(other)}) {
    gpu_->exports[kernels::kGpuKernelsSymbol] = table;
    Session session(options_, *device_, {GetParam()}, nullptr);
    const Outcome& outcome = session.Run(0);
    EXPECT_EQ(outcome.verdict, Verdict::kSkipped) << outcome.reason;
  }
}

TEST_F(GpuNativeTest, AFailedLaunchFailsTheCase) {
  kernels::GpuKernels broken = kTable;
  broken.softmax = [](RowType, void*, const void*, int64_t, int64_t, void*) { return 7; };
  gpu_->exports[kernels::kGpuKernelsSymbol] = &broken;
  const PlannedCase softmax = CaseAt("softmax", {{"impl", "native"}, {"rows", "48"}, {"d", "48"}});
  Session session(options_, *device_, {softmax}, nullptr);
  const Outcome& outcome = session.Run(0);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.reason, testing::HasSubstr("CUDA error 7"));
}

INSTANTIATE_TEST_SUITE_P(Families, GpuNativeTest, testing::ValuesIn(NativePoints()), TestNameOf);

}  // namespace
}  // namespace roofbench
