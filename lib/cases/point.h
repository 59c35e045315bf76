// SPDX-License-Identifier: Apache-2.0
// One point of a family: a value for each of its axes; and the axes with the same meaning in every family.
#pragma once

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/axes.h"
#include "lib/workload/dtype.h"
#include "lib/workload/weight_format.h"

namespace roofbench {

// A dimension along which a family varies.
struct AxisSpec {
  std::string name;
  // The allowed values; empty: any integer from 1, or any number from 0.
  std::vector<std::string> choices = {};
  // Omitted from the case's name at a point with this value, so that an axis can be added without renaming cases. The
  // name of another axis means the value of that axis. Empty: always in the name.
  std::string default_value = {};
  std::string doc = {};
  bool fractions = false;  // without choices: any number from 0
  bool several = false;    // with choices: a subset in their order, as a+b; or the default, not among them
};

// A value as a string, converted from several types.
struct AxisValue {
  std::string text = {};

  AxisValue() = default;
  // NOLINTBEGIN(google-explicit-constructor): lists of values read as what they are
  AxisValue(std::string value) : text(std::move(value)) {}
  AxisValue(const char* value) : text(value) {}
  AxisValue(std::string_view value) : text(value) {}
  template <std::integral Number>
  AxisValue(Number value) : text(std::to_string(value)) {}
  AxisValue(workload::Dtype value) : text(workload::Name(value)) {}
  AxisValue(workload::WeightFormat value) : text(workload::Name(value)) {}
  // NOLINTEND(google-explicit-constructor)
};

// 16_Mi elements are 16 · 2^20.
// NOLINTBEGIN(google-runtime-int): the type that the language prescribes
constexpr int64_t operator""_Ki(unsigned long long number) { return static_cast<int64_t>(number) << 10; }
constexpr int64_t operator""_Mi(unsigned long long number) { return static_cast<int64_t>(number) << 20; }
constexpr int64_t operator""_Gi(unsigned long long number) { return static_cast<int64_t>(number) << 30; }
// NOLINTEND(google-runtime-int)

class Point {
 public:
  Point(std::string family, const std::vector<AxisSpec>* axes, AxisValues values);

  const std::string& family() const { return family_; }
  const AxisValues& values() const { return values_; }

  // The value as a string, after following a default that names another axis. The axis must exist.
  const std::string& Text(std::string_view axis) const;
  // The parts of a value of an axis with `several`; empty for its default.
  std::vector<std::string> Several(std::string_view axis) const;
  // The value of a numeric axis.
  double Number(std::string_view axis) const;
  int64_t Int(std::string_view axis) const { return static_cast<int64_t>(Number(axis)); }
  // The value of the axis dtype.
  workload::Dtype Dtype() const;
  bool Has(std::string_view axis) const;
  // Whether a step reads its operands from memory rather than a cache (the axis cache, which every family has).
  bool IsCold() const;

  // The processes that run a step together (the axis ranks, if the family has it): 1 or more.
  int64_t Ranks() const;

  // "matmul/impl:eager/dtype:fp32/n:1024": the key of the case's history.
  std::string Name() const;

  // The name including defaults that Name omits: "gelu/impl:eager/dtype:fp32/…/cache:cold".
  std::string FullName() const;

  // The same point with one axis changed. The axis must exist.
  Point With(std::string_view axis, std::string value) const;

  const std::vector<AxisSpec>& axes() const { return *axes_; }

 private:
  std::string family_;
  const std::vector<AxisSpec>* axes_;  // owned by the family, which outlives its points
  AxisValues values_;
};

// All axes with their values, including defaults; an axis that follows another has that axis's value.
AxisValues AxesOf(const Point& point);

// The largest number on an axis: far above every size that fits in memory, and small enough that products of three
// sizes do not overflow a double.
inline constexpr double kLargestNumber = int64_t{1} << 40;

// Whether `value` is allowed on the axis (of a family with these axes).
bool ValidValue(const AxisSpec& axis, const std::vector<AxisSpec>& axes, std::string_view value);

// Description of the allowed values, for messages.
std::string ExpectedValues(const AxisSpec& axis);

// The axes with the same meaning in every family, spelled only here.
inline constexpr char kImplAxis[] = "impl";
inline constexpr char kDtypeAxis[] = "dtype";
inline constexpr char kPrecisionAxis[] = "precision";
inline constexpr char kPassAxis[] = "pass";
inline constexpr char kCacheAxis[] = "cache";
inline constexpr char kRanksAxis[] = "ranks";
inline constexpr char kThreadsAxis[] = "threads";

// Values of `pass`. A forward pass records gradients as in training; inference does not.
inline constexpr char kForward[] = "forward";
inline constexpr char kInference[] = "inference";
inline constexpr char kBackward[] = "backward";
inline constexpr char kForwardBackward[] = "forward_backward";
inline constexpr char kStep[] = "step";

// A value of `dtype` in addition to those of workload::Dtype: products in bf16 over tensors stored in fp32.
inline constexpr char kBf16Autocast[] = "bf16_autocast";

// Values of `cache`.
inline constexpr char kCold[] = "cold";
inline constexpr char kWarm[] = "warm";

// The common meaning of the axis; empty for an axis that belongs to a single family.
std::string SharedAxisDoc(const std::string& axis);

// A shared axis; `doc` adds only the details of one family.
AxisSpec SharedAxis(const char* name, std::vector<std::string> choices, std::string default_value = {},
                    std::string doc = {});

// The types that a point's `dtype` stands for: bf16_autocast computes in bf16 and stores fp32, as tf32 does.
struct ComputeAndStorage {
  workload::Dtype compute;
  workload::Dtype storage;
};
ComputeAndStorage DtypesOf(const Point& point);

// Tables whose row names are the values of an axis: `row.name` of every row.
template <typename Rows>
std::vector<std::string> NamesOf(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

// Throws std::logic_error if no row has the name.
template <typename Rows>
const auto& RowOf(const Rows& rows, std::string_view name) {
  for (const auto& row : rows) {
    if (row.name == name) return row;
  }
  throw std::logic_error("no row " + std::string(name));
}

}  // namespace roofbench
