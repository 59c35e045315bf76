// SPDX-License-Identifier: Apache-2.0
// The accelerator as a GPU with its own clock: an operator is a launch, and a wait for it also waits for the launches
// before.
#pragma once

#include <algorithm>
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
    fake_facts.l2_bytes = 1 << 12;  // small cases are cold after a few clones instead of thousands
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
    const std::shared_ptr<accelerator::Recording> recording = accelerator::Record([&] {
      enqueue([&] { ends.push_back(operator_seconds * static_cast<double>(accelerator::RecordedLaunches())); });
    });
    return std::make_unique<FakeGraph>(
        machine_, std::move(ends), operator_seconds * static_cast<double>(recording->launches()), [this, recording] {
          if (replays) recording->Replay();
        });
  }

  double operator_seconds = 5e-6;  // of an operator, on the device
  bool replays = true;             // false: launches of graphs make their marks alone

 private:
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
