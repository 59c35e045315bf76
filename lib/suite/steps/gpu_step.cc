// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/steps/gpu_step.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/device/gpu.h"
#include "lib/suite/check.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

// nullptr if there are none.
const kernels::GpuKernels* FindKernels(const Device& device) {
  const Gpu* const gpu = device.gpu();
  return gpu == nullptr ? nullptr : static_cast<const kernels::GpuKernels*>(gpu->Export(kernels::kGpuKernelsSymbol));
}

// Records which phases a step ends, and places a mark at each.
class RecordedPhases final : public timing::PhaseMarker {
 public:
  explicit RecordedPhases(const std::function<void()>& mark) : mark_(mark) {}
  void End(int phase) override {
    phases_.push_back(phase);
    mark_();
  }
  std::vector<int> Take() { return std::move(phases_); }

 private:
  const std::function<void()>& mark_;
  std::vector<int> phases_;
};

std::vector<at::Tensor> HostCopies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.detach().to(at::kCPU, false, /*copy=*/true));
  return copies;
}

// A step, by what it found and what it left. On the host, where it takes no room from the case.
struct OneStep {
  std::vector<at::Tensor> start;  // of `after.updated`
  StepEffects after;
};

// An optimizer creates its state in a first step.
OneStep RunOneStep(const Case& eager) {
  timing::IgnoredPhases ignored;
  eager.step(ignored);
  OneStep one;
  one.start = HostCopies(eager.effects().updated);
  eager.step(ignored);
  const StepEffects effects = eager.effects();
  one.after = {.overwritten = HostCopies(effects.overwritten), .updated = HostCopies(effects.updated)};
  return one;
}

// Whether a launch of the graph, from where the step began, leaves what the step left.
absl::Status CompareLaunch(GpuGraph& graph, const Case& eager, const OneStep& one) {
  // Atomic additions round differently in each run, which decides the sign of an optimizer's update where the gradient
  // is next to zero; a launch that does nothing is off by the whole change.
  constexpr double kMostOfTheChange = 0.1;
  const at::NoGradGuard no_grad;
  const StepEffects effects = eager.effects();
  Invalidate(effects.overwritten);
  for (std::size_t i = 0; i < effects.updated.size(); ++i) effects.updated[i].copy_(one.start[i]);
  graph.Replay([] {});
  const std::vector<at::Tensor> updated = HostCopies(effects.updated);
  for (std::size_t i = 0; i < updated.size(); ++i) {
    const auto norm = [&](const at::Tensor& a, const at::Tensor& b) {
      return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>();
    };
    const double change = norm(one.after.updated[i], one.start[i]);
    const double off = norm(updated[i], one.after.updated[i]);
    if (off <= kMostOfTheChange * change) continue;
    return absl::DataLossError(absl::StrCat(
        "a launch of the recorded step changes tensor ", i, " of what it updates by ", norm(updated[i], one.start[i]),
        ", the step itself by ", change, " (Euclidean norms, and they differ by ", off, ")"));
  }
  for (std::size_t i = 0; i < effects.overwritten.size(); ++i) {
    const absl::Status status = CompareTensors(effects.overwritten[i].detach(), one.after.overwritten[i],
                                               eager.tolerance, "result of a launch of the recorded step");
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// A launch of a graph takes some microseconds, and a shorter step is timed by their pace. Of such a step, this many
// seconds are launched at once.
constexpr double kLongAgainstLaunch = 100e-6;
constexpr double kMostSteps = 64;
constexpr int kReadings = 5;

double SecondsOfLaunch(GpuGraph& graph, timing::Clock& clock) {
  std::vector<double> readings;
  for (int i = 0; i < kReadings; ++i) {
    clock.BeginChunk(2);
    clock.Mark();
    graph.Replay([] {});
    clock.Mark();
    readings.push_back(clock.EndChunk().back());
  }
  return timing::Median(readings);
}

// Device seconds of a step's kernels, one step after another in a graph: one of twice as many steps takes longer by the
// kernels alone. nullopt for steps that are long against a launch.
std::optional<double> KernelSeconds(const Case& eager, GpuGraph& of_one, Device& device) {
  const double launch = SecondsOfLaunch(of_one, device.clock());
  if (launch <= 0 || launch >= kLongAgainstLaunch) return std::nullopt;
  const auto steps = static_cast<int>(std::clamp(std::ceil(kLongAgainstLaunch / launch), 1.0, kMostSteps));
  const auto seconds_of = [&](int count) {
    timing::IgnoredPhases ignored;
    const std::unique_ptr<GpuGraph> graph = device.gpu()->Record([&](const std::function<void()>&) {
      for (int i = 0; i < count; ++i) eager.step(ignored);
    });
    return SecondsOfLaunch(*graph, device.clock());
  };
  const double once = seconds_of(steps);
  return (seconds_of(2 * steps) - once) / steps;
}

}  // namespace

absl::Status GpuKernelsSupport(const Device& device) {
  const kernels::GpuKernels* const table = FindKernels(device);
  if (table == nullptr) return absl::UnimplementedError("the CUDA part of this build has no kernels of ours");
  if (table->version != kernels::kGpuKernelsVersion) {
    return absl::UnimplementedError(absl::StrCat("the kernels of the CUDA part belong to another build (interface ",
                                                 table->version, ", this one needs ", kernels::kGpuKernelsVersion,
                                                 "): build or install both together"));
  }
  return absl::OkStatus();
}

absl::Status GpuRowsSupport(int64_t cols) {
  if (cols % kernels::kGpuVector != 0 || cols > kernels::kMostRowColumns) {
    return absl::UnimplementedError(absl::StrCat("our kernel takes rows of a multiple of ", kernels::kGpuVector,
                                                 " elements, ", kernels::kMostRowColumns,
                                                 " at most; the eager implementation takes ", cols));
  }
  return absl::OkStatus();
}

kernels::RowType RowTypeOf(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ? kernels::RowType::kBf16 : kernels::RowType::kFp32;
}

kernels::WeightType WeightTypeOf(workload::WeightFormat format) {
  using workload::WeightFormat;
  if (format == WeightFormat::kFp32) return kernels::WeightType::kFp32;
  if (format == WeightFormat::kInt8) return kernels::WeightType::kInt8;
  return format == WeightFormat::kInt4 ? kernels::WeightType::kInt4 : kernels::WeightType::kBf16;
}

GpuLauncher::GpuLauncher(const Device& device) : table_(FindKernels(device)), gpu_(device.gpu()) {}

void* GpuLauncher::Stream() const { return gpu_->Stream(); }

void GpuLauncher::Check(int error) {
  if (error == 0) return;
  throw std::runtime_error("our kernel could not be launched on the GPU: CUDA error " + std::to_string(error));
}

absl::Status SupportsGraph(const Device& device) {
  if (device.gpu() != nullptr) return absl::OkStatus();
  return absl::UnimplementedError(
      "CUDA graphs need a GPU; the eager implementation is the same work, launched one by one");
}

absl::StatusOr<Case> Graphed(Case eager, Device& device) {
  if (absl::Status status = SupportsGraph(device); !status.ok()) return status;
  std::vector<int> phases;
  std::shared_ptr<GpuGraph> graph;
  OneStep one;
  std::optional<double> kernel_seconds;
  {
    const at::AutoGradMode grad(eager.autograd);
    if (eager.effects) one = RunOneStep(eager);
    graph = device.gpu()->Record([&](const std::function<void()>& mark) {
      RecordedPhases recorder(mark);
      eager.step(recorder);
      phases = recorder.Take();
    });
  }
  if (eager.effects) {
    if (absl::Status status = CompareLaunch(*graph, eager, one); !status.ok()) return status;
  } else {
    // Of a step that finds what the one before it found.
    if (!eager.prepare) kernel_seconds = KernelSeconds(eager, *graph, device);
    Invalidate(WholeResult(eager));
  }
  Case graphed = std::move(eager);
  if (kernel_seconds) graphed.AddFigure("kernel_ms", 1e3 * *kernel_seconds);
  // Keeps the eager step, which owns the graph's tensors.
  graphed.step = [graph, phases, keep = graphed.step](timing::PhaseMarker& marker) {
    graph->Replay([&] {
      for (const int phase : phases) marker.End(phase);
    });
  };
  return graphed;
}

}  // namespace roofbench
