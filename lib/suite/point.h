// SPDX-License-Identifier: Apache-2.0
// One point of a family: a value for each of its axes.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
constexpr int64_t operator""_Ki(unsigned long long number) { return static_cast<int64_t>(number) << 10; }
constexpr int64_t operator""_Mi(unsigned long long number) { return static_cast<int64_t>(number) << 20; }
constexpr int64_t operator""_Gi(unsigned long long number) { return static_cast<int64_t>(number) << 30; }

using AxisValues =
    std::vector<std::pair<std::string, std::string>>;  // axis -> value, in the order of the family's axes

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

  // "matmul/impl:eager/dtype:fp32/n:1024": the key of the case's history.
  std::string Name() const;

  // The name including defaults that Name omits: "gelu/impl:eager/dtype:fp32/…/cache:cold".
  std::string FullName() const;

  // The same point with one axis changed.
  Point With(std::string_view axis, std::string value) const;

  const std::vector<AxisSpec>& axes() const { return *axes_; }

 private:
  std::string family_;
  const std::vector<AxisSpec>* axes_;  // owned by the family, which outlives its points
  AxisValues values_;
};

// All axes with their values, including defaults; an axis that follows another has that axis's value.
AxisValues AxesOf(const Point& point);

// Whether `value` is allowed on the axis (of a family with these axes).
bool ValidValue(const AxisSpec& axis, const std::vector<AxisSpec>& axes, std::string_view value);

// Description of the allowed values, for messages.
std::string ExpectedValues(const AxisSpec& axis);

}  // namespace roofbench
