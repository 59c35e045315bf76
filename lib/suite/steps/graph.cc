// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/steps/graph.h"

#include <ATen/core/grad_mode.h>

#include <memory>
#include <utility>
#include <vector>

#include "lib/device/gpu.h"

namespace roofbench {
namespace {

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

}  // namespace

absl::Status SupportsGraph(const Device& device) {
  if (device.gpu() != nullptr) return absl::OkStatus();
  return absl::UnimplementedError(
      "CUDA graphs need a GPU; the eager implementation is the same work, launched one by one");
}

absl::StatusOr<Case> Graphed(Case eager, Device& device) {
  if (absl::Status status = SupportsGraph(device); !status.ok()) return status;
  std::vector<int> phases;
  std::shared_ptr<GpuGraph> graph;
  {
    const at::AutoGradMode grad(eager.autograd);
    graph = device.gpu()->Record([&](const std::function<void()>& mark) {
      RecordedPhases recorder(mark);
      eager.step(recorder);
      phases = recorder.Take();
    });
  }
  Case graphed = std::move(eager);
  // Keeps the eager step, which owns the graph's tensors.
  graphed.step = [graph, phases, keep = graphed.step](timing::PhaseMarker& marker) {
    graph->Replay([&] {
      for (const int phase : phases) marker.End(phase);
    });
  };
  return graphed;
}

}  // namespace roofbench
