// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/roofline.h"

#include <algorithm>
#include <utility>

namespace roofbench::workload {
namespace {

// Adds amount/rate to `seconds`; false if the amount is needed and the rate unknown.
bool AddTime(double amount, double rate, double& seconds) {
  if (amount <= 0) return true;
  if (rate <= 0) return false;
  seconds += amount / rate;
  return true;
}

std::optional<double> OperationComputeSeconds(const Operation& operation, const Peaks& peaks) {
  double seconds = 0;
  for (std::size_t i = 0; i < kDtypeCount; ++i) {
    if (!AddTime(operation.flops[i], peaks.flops_per_second[i], seconds)) return std::nullopt;
  }
  return operation.repeat * seconds;
}

std::optional<double> OperationMemorySeconds(const Operation& operation, const Peaks& peaks) {
  const Traffic traffic = TrafficOf(operation);
  double seconds = 0;
  if (!AddTime(traffic.copy, peaks.copy, seconds) ||  //
      !AddTime(traffic.read, peaks.read, seconds) || !AddTime(traffic.write, peaks.write, seconds) ||
      !AddTime(traffic.update, peaks.update, seconds)) {
    return std::nullopt;
  }
  return operation.repeat * seconds;
}

// Sum over operations of `seconds(operation)`; nullopt if one is unknown or if there is nothing to do.
template <typename Seconds>
std::optional<double> SumSeconds(const Cost& cost, Seconds seconds) {
  double sum = 0;
  for (const Operation& operation : cost.operations) {
    const std::optional<double> one = seconds(operation);
    if (!one) return std::nullopt;
    sum += *one;
  }
  if (sum <= 0) return std::nullopt;
  return sum;
}

}  // namespace

Peaks Peaks::Scaled(Bound rates, double factor) const {
  Peaks scaled = *this;
  if (rates == Bound::kMemory) {
    for (double* rate : {&scaled.read, &scaled.copy, &scaled.update, &scaled.write}) *rate *= factor;
  } else if (rates == Bound::kLink) {
    scaled.link *= factor;
  } else {
    for (double& rate : scaled.flops_per_second) rate *= factor;
  }
  return scaled;
}

Traffic TrafficOf(const Operation& operation) {
  const double copied = std::min(operation.bytes_read, operation.bytes_written);
  return {.read = operation.bytes_read - copied,
          .copy = 2 * copied,
          .update = 2 * operation.bytes_updated,
          .write = operation.bytes_written - copied};
}

Traffic TrafficOf(const Cost& cost) {
  Traffic sum;
  for (const Operation& operation : cost.operations) {
    const Traffic one = TrafficOf(operation);
    sum.read += operation.repeat * one.read;
    sum.copy += operation.repeat * one.copy;
    sum.update += operation.repeat * one.update;
    sum.write += operation.repeat * one.write;
  }
  return sum;
}

std::optional<double> RoofSeconds(const Cost& cost, const Peaks& peaks) {
  double link = 0;
  if (!AddTime(cost.bus_bytes, peaks.link, link)) return std::nullopt;
  if (cost.operations.empty() && link > 0) return link;
  const std::optional<double> operations = SumSeconds(cost, [&](const Operation& operation) -> std::optional<double> {
    const std::optional<double> compute = OperationComputeSeconds(operation, peaks);
    const std::optional<double> memory = OperationMemorySeconds(operation, peaks);
    if (!compute || !memory) return std::nullopt;
    return std::max(*compute, *memory);
  });
  return operations ? std::optional(*operations + link) : std::nullopt;
}

std::optional<double> MemorySeconds(const Cost& cost, const Peaks& peaks) {
  return SumSeconds(cost, [&](const Operation& operation) { return OperationMemorySeconds(operation, peaks); });
}

std::optional<double> ComputeSeconds(const Cost& cost, const Peaks& peaks) {
  return SumSeconds(cost, [&](const Operation& operation) { return OperationComputeSeconds(operation, peaks); });
}

Bound BindingRoof(const Cost& cost, const Peaks& peaks) {
  double compute_bound = 0;
  double memory_bound = 0;
  for (const Operation& operation : cost.operations) {
    const double compute = OperationComputeSeconds(operation, peaks).value_or(0);
    const double memory = OperationMemorySeconds(operation, peaks).value_or(0);
    (compute > memory ? compute_bound : memory_bound) += std::max(compute, memory);
  }
  return compute_bound > memory_bound ? Bound::kCompute : Bound::kMemory;
}

std::optional<Dtype> DominantDtype(const Cost& cost, const Peaks& peaks) {
  std::optional<Dtype> dominant;
  double most = 0;
  for (const Dtype dtype : kDtypes) {
    const double rate = peaks.flops_per_second[Index(dtype)];
    const double flops = cost.Flops(dtype);
    // A precision without a known peak cannot be weighed by time: it has weight 0, and is chosen if no other has more.
    const double weight = rate > 0 ? flops / rate : 0;
    if (flops > 0 && (!dominant || weight > most)) {
      dominant = dtype;
      most = weight;
    }
  }
  return dominant;
}

std::vector<std::pair<std::string_view, double>> KnownRates(const Peaks& peaks) {
  std::vector<std::pair<std::string_view, double>> rates = {
      {"read", peaks.read}, {"copy", peaks.copy}, {"update", peaks.update}, {"write", peaks.write}};
  for (const Dtype dtype : kDtypes) rates.emplace_back(Name(dtype), peaks.flops_per_second[Index(dtype)]);
  std::erase_if(rates, [](const auto& rate) { return rate.second <= 0; });
  return rates;
}

}  // namespace roofbench::workload
