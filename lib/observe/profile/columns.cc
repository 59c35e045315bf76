// SPDX-License-Identifier: Apache-2.0
#include "lib/observe/profile/columns.h"

namespace roofbench::observe {

std::span<const Column<OperatorRow>> OperatorColumns() {
  using Row = OperatorRow;
  static const Column<Row> kColumns[] = {{"name", "operator", Quantity::kName, &Row::name},
                                         {"calls", "calls", Quantity::kCount, &Row::calls},
                                         {"self_ms", "self", Quantity::kSeconds, &Row::self},
                                         {"total_ms", "total", Quantity::kSeconds, &Row::total},
                                         {"self_device_ms", "self device", Quantity::kSeconds, &Row::self_device},
                                         {"total_device_ms", "total device", Quantity::kSeconds, &Row::total_device},
                                         {"flops", "FLOPs", Quantity::kFlops, &Row::flops},
                                         {"input_bytes", "input", Quantity::kBytes, &Row::input_bytes},
                                         {"share", "share", Quantity::kShare, &Row::share},
                                         {"shapes", "shapes", Quantity::kText, &Row::shapes}};
  return kColumns;
}

std::span<const Column<KernelRow>> KernelColumns() {
  using Row = KernelRow;
  static const Column<Row> kColumns[] = {
      {"name", "kernel", Quantity::kName, &Row::name},        {"phase", "phase", Quantity::kText, &Row::phase},
      {"work", "work", Quantity::kText, &Row::work},          {"calls", "calls", Quantity::kCount, &Row::calls},
      {"total_ms", "total", Quantity::kSeconds, &Row::total}, {"mean_ms", "mean", Quantity::kSeconds, &Row::mean},
      {"flops", "FLOPs", Quantity::kFlops, &Row::flops},      {"share", "share", Quantity::kShare, &Row::share},
      {"launch", "launch", Quantity::kText, &Row::launch}};
  return kColumns;
}

std::span<const Column<ModuleRow>> ModuleColumns() {
  using Row = ModuleRow;
  static const Column<Row> kColumns[] = {{"path", "part", Quantity::kName, &Row::path},
                                         {"calls", "calls", Quantity::kCount, &Row::calls},
                                         {"self_ms", "self", Quantity::kSeconds, &Row::self},
                                         {"total_ms", "total", Quantity::kSeconds, &Row::total},
                                         {"total_device_ms", "total device", Quantity::kSeconds, &Row::total_device},
                                         {"flops", "FLOPs", Quantity::kFlops, &Row::flops},
                                         {"share", "share", Quantity::kShare, &Row::share}};
  return kColumns;
}

std::span<const Column<RoutineRow>> RoutineColumns() {
  using Row = RoutineRow;
  static const Column<Row> kColumns[] = {
      {"name", "routine", Quantity::kName, &Row::name},      {"library", "of", Quantity::kText, &Row::library},
      {"calls", "calls", Quantity::kCount, &Row::calls},     {"total_ms", "total", Quantity::kSeconds, &Row::total},
      {"mean_ms", "mean", Quantity::kSeconds, &Row::mean},   {"share", "share", Quantity::kShare, &Row::share},
      {"problem", "problem", Quantity::kText, &Row::problem}};
  return kColumns;
}

}  // namespace roofbench::observe
