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

// One dimension along which a family varies.
struct AxisSpec {
  std::string name;
  // The values it can take; empty: any whole number from 1, or any number from 0.
  std::vector<std::string> choices = {};
  // Left out of the case's name where a point has this value, so that an axis can be added without renaming anything.
  // The name of another axis: "the same as that one". Empty: always in the name.
  std::string default_value = {};
  std::string doc = {};
  bool fractions = false;  // without choices: any number from 0
  bool several = false;    // with choices: any of them, in their order, as a+b; the default, which is none of them, too
};

// A value as text, whatever it is written as in the code.
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

  // The value as text; a default that names another axis is followed. The axis must exist.
  const std::string& Text(std::string_view axis) const;
  // The parts of a value of an axis with `several`; none of its default.
  std::vector<std::string> Several(std::string_view axis) const;
  // The value of an axis of numbers.
  double Number(std::string_view axis) const;
  int64_t Int(std::string_view axis) const { return static_cast<int64_t>(Number(axis)); }
  // The value of the axis dtype.
  workload::Dtype Dtype() const;
  bool Has(std::string_view axis) const;
  // Whether a step finds its operands in memory and not in a cache (the axis cache, which every family has).
  bool IsCold() const;

  // "matmul/impl:eager/dtype:fp32/n:1024": the key of the case's history.
  std::string Name() const;

  // With the defaults that Name leaves out: "gelu/impl:eager/dtype:fp32/…/cache:cold".
  std::string FullName() const;

  // The same point with one axis changed.
  Point With(std::string_view axis, std::string value) const;

  const std::vector<AxisSpec>& axes() const { return *axes_; }

 private:
  std::string family_;
  const std::vector<AxisSpec>* axes_;  // owned by the family, which outlives its points
  AxisValues values_;
};

// Every axis with its value, also the defaults; one that follows another axis has that one's value.
AxisValues AxesOf(const Point& point);

// Whether `value` is allowed on the axis (of a family with these axes).
bool ValidValue(const AxisSpec& axis, const std::vector<AxisSpec>& axes, std::string_view value);

// What such values are, for messages.
std::string ExpectedValues(const AxisSpec& axis);

}  // namespace roofbench
