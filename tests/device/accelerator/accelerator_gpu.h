// SPDX-License-Identifier: Apache-2.0
// The accelerator as a GPU with its own clock: an operator is a launch, and a wait for it also waits for the launches
// before.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lib/device/gpu_device.h"
#include "tests/device/accelerator/accelerator.h"
#include "tests/device/fake_gpu.h"

namespace roofbench {

class AcceleratorGpu final : public FakeGpu {
 public:
  // `machine` must outlive the GPU, of which there is one at a time.
  explicit AcceleratorGpu(timing::FakeMachine& machine) : FakeGpu(machine), machine_(machine) {
    accelerator::OnLaunch([this] { machine_.Launch(operator_seconds); });
    accelerator::OnWait([this] { machine_.host = std::max(machine_.host, machine_.device); });
  }
  ~AcceleratorGpu() override {
    accelerator::OnLaunch(nullptr);
    accelerator::OnWait(nullptr);
  }

  std::unique_ptr<GpuGraph> Record(const Enqueue& enqueue) override {
    enqueue([] {});
    std::vector<double> ends;
    auto recording = accelerator::Record([&] {
      enqueue([&] { ends.push_back(operator_seconds * static_cast<double>(accelerator::RecordedLaunches())); });
    });
    return std::make_unique<Graph>(machine_, std::move(recording), std::move(ends), operator_seconds);
  }

  double operator_seconds = 5e-6;  // of an operator, on the device

 private:
  class Graph final : public GpuGraph {
   public:
    Graph(timing::FakeMachine& machine, std::unique_ptr<accelerator::Recording> recording, std::vector<double> ends,
          double operator_seconds)
        : machine_(machine),
          recording_(std::move(recording)),
          ends_(std::move(ends)),
          seconds_(operator_seconds * static_cast<double>(recording_->launches())) {}

    void Replay(const std::function<void()>& mark) override {
      std::vector<timing::FakeEvent*> events;
      machine_.gathered = &events;
      mark();
      machine_.gathered = nullptr;
      EXPECT_TRUE(events.empty() || events.size() == ends_.size());
      machine_.Launch(0);
      const double start = machine_.device;
      for (std::size_t i = 0; i < events.size(); ++i) *events[i] = {.passed = start + ends_[i], .by_graph = true};
      machine_.device = start + seconds_;
      recording_->Replay();
    }

   private:
    timing::FakeMachine& machine_;
    const std::unique_ptr<accelerator::Recording> recording_;
    const std::vector<double> ends_;
    const double seconds_;
  };

  timing::FakeMachine& machine_;
};

// A device around it. `gpu` is given the GPU that the device owns.
inline std::unique_ptr<GpuDevice> MakeAcceleratorDevice(timing::FakeMachine& machine, AcceleratorGpu*& gpu) {
  GpuParts parts;
  auto made = std::make_unique<AcceleratorGpu>(machine);
  gpu = made.get();
  parts.gpu = std::move(made);
  parts.torch_device = accelerator::TheDevice();
  parts.host_seconds = [&machine] { return machine.host; };
  return std::make_unique<GpuDevice>(std::move(parts));
}

}  // namespace roofbench
