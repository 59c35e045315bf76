// SPDX-License-Identifier: Apache-2.0
// The shortest time that a set of peaks allows for a cost: the roofline model, operation by operation.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/workload/cost.h"

namespace roofbench::workload {

// Which peak limits a cost.
enum class Bound { kMemory, kCompute, kLink };

// Peak rates of one device (or of its caches, for a working set). Zero means unknown, never "slow".
struct Peaks {
  std::array<double, kDtypeCount> flops_per_second{};
  // Bytes per second, by the kind of traffic. A datasheet has one figure for all four; a measurement separates them.
  double read = 0;    // reading only
  double copy = 0;    // reading one stream and writing another: both directions counted
  double update = 0;  // reading and writing the same bytes: both directions counted
  double write = 0;   // writing only

  // Bytes per second that a rank sends to others, while it sends what a collective operation has to.
  double link = 0;

  // The same peaks with every memory (or arithmetic, or link) rate multiplied by `factor`.
  Peaks Scaled(Bound rates, double factor) const;
};

// The names of the known rates, "read", …, "fp32", …, with the rates.
std::vector<std::pair<std::string_view, double>> KnownRates(const Peaks& peaks);

// Peaks with one bandwidth for every kind of traffic.
constexpr Peaks UniformPeaks(const std::array<double, kDtypeCount>& flops_per_second, double bytes_per_second) {
  return {.flops_per_second = flops_per_second,
          .read = bytes_per_second,
          .copy = bytes_per_second,
          .update = bytes_per_second,
          .write = bytes_per_second};
}

// Bytes by the kind of traffic whose rate they take: each written byte is paired with a read one, and both are copied;
// the rest is read or written; bytes updated in place count in both directions.
struct Traffic {
  double read = 0;
  double copy = 0;
  double update = 0;
  double write = 0;

  // Each kind's name, as KnownRates has it, with its bytes.
  std::array<std::pair<std::string_view, double>, 4> ByKind() const {
    return {{{"read", read}, {"copy", copy}, {"update", update}, {"write", write}}};
  }
};

// That of one occurrence, and of all operations, each as often as it repeats.
Traffic TrafficOf(const Operation& operation);
Traffic TrafficOf(const Cost& cost);

// Lower bound in seconds under `peaks`: the sum over operations of max(compute time, memory time). Compute time is the
// sum over precisions of flops/peak, memory time that over kinds of traffic. Traffic between ranks takes the `link`
// rate, after the operations. nullopt if a peak that the cost needs is unknown, or if the cost is empty.
std::optional<double> RoofSeconds(const Cost& cost, const Peaks& peaks);

// Seconds of memory traffic alone (and of arithmetic alone) under `peaks`; nullopt if a needed peak is unknown.
std::optional<double> MemorySeconds(const Cost& cost, const Peaks& peaks);
std::optional<double> ComputeSeconds(const Cost& cost, const Peaks& peaks);

// The peak that accounts for the larger part of RoofSeconds. Memory if either is unknown or the cost is empty.
Bound BindingRoof(const Cost& cost, const Peaks& peaks);

// The precision with the most compute time in `cost` under `peaks`; nullopt if the cost has no arithmetic.
std::optional<Dtype> DominantDtype(const Cost& cost, const Peaks& peaks);

}  // namespace roofbench::workload
