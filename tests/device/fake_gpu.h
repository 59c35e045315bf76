// SPDX-License-Identifier: Apache-2.0
// A GPU whose time a test advances: work is a Launch on its machine.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lib/device/gpu.h"
#include "tests/hardware/roofs/fake_gpu_streams.h"
#include "tests/timing/fake_event_queue.h"

namespace roofbench {

// Work of `seconds` that is launched at once, with marks `ends` seconds after its start.
class FakeGraph final : public GpuGraph {
 public:
  FakeGraph(
      timing::FakeMachine& machine, std::vector<double> ends, double seconds, std::function<void()> work = [] {})
      : machine_(machine), ends_(std::move(ends)), seconds_(seconds), work_(std::move(work)) {}

  void Replay(const std::function<void()>& mark) override {
    std::vector<timing::FakeEvent*> events;
    machine_.gathered = &events;
    mark();
    machine_.gathered = nullptr;
    EXPECT_TRUE(events.empty() || events.size() == ends_.size());
    machine_.Launch(machine_.graph_seconds + seconds_);
    const double start = machine_.device - seconds_;
    for (std::size_t i = 0; i < events.size(); ++i) *events[i] = {.passed = start + ends_[i], .by_graph = true};
    work_();
  }

 private:
  timing::FakeMachine& machine_;
  const std::vector<double> ends_;
  const double seconds_;
  const std::function<void()> work_;
};

class FakeGpu : public Gpu {
 public:
  // `machine` must outlive the GPU.
  explicit FakeGpu(timing::FakeMachine& machine) : machine_(machine) {}

  const GpuFacts& facts() const override { return fake_facts; }
  double FreeMemoryBytes() const override {
    if (!memory_fault.empty()) throw std::runtime_error(memory_fault);
    return free_bytes;
  }
  void EmptyCache() override { ++emptied; }
  double PeakBytes() const override { return 0; }
  void ResetPeak() override {}
  double GraphBytes() const override { return graph_bytes; }
  void StartMemoryHistory(std::string (*site)(), std::size_t most_events) override {
    memory_site = site;
    most_memory_events = most_events;
  }
  observe::MemoryHistory FinishMemoryHistory() override {
    memory_site = nullptr;
    return std::exchange(memory_history, {});
  }
  void Synchronize() override {
    machine_.host = std::max(machine_.host, machine_.device);
    if (!fault.empty()) throw std::runtime_error(fault_stays ? fault : std::exchange(fault, {}));
  }
  std::unique_ptr<timing::EventQueue> NewEventQueue() const override {
    return std::make_unique<timing::FakeEventQueue>(machine_);
  }
  hardware::GpuStreams& streams() override { return fake_streams; }
  void Zero(std::byte* memory, std::size_t bytes) override { std::memset(memory, 0, bytes); }
  void Spin(double seconds) override { machine_.Launch(seconds); }

  std::unique_ptr<GpuGraph> Record(const Enqueue& enqueue) override {
    enqueue([] {});
    // What is recorded waits for no host.
    const double enqueue_seconds = std::exchange(machine_.enqueue_seconds, 0);
    const double start = machine_.device = std::max(machine_.device, machine_.host);
    std::vector<double> ends;
    enqueue([&] { ends.push_back(machine_.device - start); });
    machine_.enqueue_seconds = enqueue_seconds;
    return std::make_unique<FakeGraph>(machine_, std::move(ends), machine_.device - start, replayed);
  }

  void* Stream() const override { return &machine_; }
  const void* Export(const std::string& symbol) const override {
    const auto found = exports.find(symbol);
    return found == exports.end() ? nullptr : found->second;
  }

  GpuFacts fake_facts = {.name = "NVIDIA H200",
                         .index = 0,
                         .compute_major = 9,
                         .compute_minor = 0,
                         .multiprocessors = 132,
                         .l2_bytes = 1 << 20,
                         .memory_bytes = 64 << 20,
                         .pci_bus_id = "0000:65:00.0",
                         .cuda_driver = "13.0",
                         .cuda_runtime = "13.0"};
  hardware::FakeGpuStreams fake_streams;
  double free_bytes = 8e9;
  double graph_bytes = 0;
  int emptied = 0;
  std::function<void()> replayed = [] {};  // the work of a graph's launch
  observe::MemoryHistory memory_history;   // what FinishMemoryHistory gives
  std::string (*memory_site)() = nullptr;  // of the history that is being recorded
  std::size_t most_memory_events = 0;
  std::string fault;         // the next Synchronize throws it
  std::string memory_fault;  // FreeMemoryBytes throws it
  bool fault_stays = false;  // and every one after it, as after an illegal access
  std::map<std::string, const void*> exports;

 private:
  timing::FakeMachine& machine_;
};

}  // namespace roofbench
