// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/cost.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>

namespace roofbench::workload {
namespace {

// Sum over operations of `value`, a function or a member, each counted as often as it repeats.
template <typename Value>
double Sum(const std::vector<Operation>& operations, Value value) {
  return std::accumulate(operations.begin(), operations.end(), 0.0, [&](double sum, const Operation& operation) {
    return sum + operation.repeat * std::invoke(value, operation);
  });
}

}  // namespace

Operation Operation::WithFlops(Dtype dtype, double count) const {
  Operation with = *this;
  with.flops[Index(dtype)] = count;
  return with;
}

double Operation::Flops() const { return repeat * std::accumulate(flops.begin(), flops.end(), 0.0); }

double Operation::Bytes() const { return repeat * (bytes_read + bytes_written + 2 * bytes_updated); }

double Cost::Flops() const {
  return Sum(operations, [](const Operation& operation) {
    return std::accumulate(operation.flops.begin(), operation.flops.end(), 0.0);
  });
}

double Cost::Flops(Dtype dtype) const {
  return Sum(operations, [dtype](const Operation& operation) { return operation.flops[Index(dtype)]; });
}

double Cost::Bytes() const { return BytesRead() + BytesWritten() + 2 * BytesUpdated(); }

double Cost::BytesRead() const { return Sum(operations, &Operation::bytes_read); }
double Cost::BytesWritten() const { return Sum(operations, &Operation::bytes_written); }
double Cost::BytesUpdated() const { return Sum(operations, &Operation::bytes_updated); }

Cost Cost::OfComponent(std::string_view component) const {
  Cost cost;
  std::copy_if(operations.begin(), operations.end(), std::back_inserter(cost.operations),
               [component](const Operation& operation) { return operation.component == component; });
  return cost;
}

Cost& Cost::operator+=(const Cost& other) {
  operations.insert(operations.end(), other.operations.begin(), other.operations.end());
  resident_bytes += other.resident_bytes;
  array_bytes += other.array_bytes;
  bus_bytes += other.bus_bytes;
  wire_bytes += other.wire_bytes;
  link_messages += other.link_messages;
  in_sequence += other.in_sequence;
  return *this;
}

Operation Map(double elements, Dtype dtype, double inputs, double flops) {
  const double bytes = elements * ElementBytes(dtype);
  return Operation{.bytes_read = inputs * bytes, .bytes_written = bytes}.WithFlops(Dtype::kFp32, flops * elements);
}

Cost InOperands(const Operation& operation) {
  return {.operations = {operation},
          .resident_bytes = operation.bytes_read + operation.bytes_written + operation.bytes_updated};
}

Cost Repeated(Cost cost, double times) {
  for (Operation& operation : cost.operations) operation.repeat *= times;
  for (double* const of :
       {&cost.array_bytes, &cost.bus_bytes, &cost.wire_bytes, &cost.link_messages, &cost.in_sequence}) {
    *of *= times;
  }
  return cost;
}

}  // namespace roofbench::workload
