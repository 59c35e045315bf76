// SPDX-License-Identifier: Apache-2.0
#include "lib/cases/point.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/text.h"

namespace roofbench {
namespace {

const AxisSpec* FindAxis(const std::vector<AxisSpec>& axes, std::string_view name) {
  const auto it = std::find_if(axes.begin(), axes.end(), [&](const AxisSpec& axis) { return axis.name == name; });
  return it == axes.end() ? nullptr : &*it;
}

// Requires the order of the choices, so that a set has one spelling.
bool AreChoices(const std::vector<std::string>& choices, std::string_view value) {
  auto next = choices.begin();
  for (const auto& one : absl::StrSplit(View(value), '+')) {
    next = std::find(next, choices.end(), one);
    if (next == choices.end()) return false;
    ++next;
  }
  return true;
}

constexpr std::string_view kDigits = "0123456789";
// Digits with an optional decimal fraction: no sign, no exponent. Each number has exactly one spelling, because it
// occurs in names.
bool IsShortDecimal(std::string_view text) {
  const std::string_view whole = text.substr(0, text.find('.'));
  if (whole.empty() || whole.find_first_not_of(kDigits) != std::string_view::npos) return false;
  if (whole.size() > 1 && whole.front() == '0') return false;
  if (whole.size() == text.size()) return true;
  const std::string_view rest = text.substr(whole.size() + 1);
  return !rest.empty() && rest.back() != '0' && rest.find_first_not_of(kDigits) == std::string_view::npos;
}

constexpr std::pair<const char*, const char*> kSharedAxisDocs[] = {
    {kImplAxis, "who does the work"},
    {kDtypeAxis, "what tensors are stored and computed in; bf16_autocast: products in bf16 over fp32 storage"},
    {kPrecisionAxis,
     "how weights are stored; int8 and fp8 have a scale per row, int4 a scale and a zero per group, with bf16 "
     "activations; "
     "llm_int8 has int8 activations too, outlier columns in 16 bits"},
    {kPassAxis,
     "what is timed: forward (recording gradients as training does), inference (not recording), backward, "
     "forward_backward, step (with the optimizer)"},
    {kCacheAxis, "cold: operands come from memory; warm: as the last step left them"},
    {kRanksAxis, "processes that run each step together"},
    {kThreadsAxis, "of the processor; 0: all of the run"},
};

std::logic_error NoAxis(const std::string& family, std::string_view axis) {
  return std::logic_error(absl::StrCat("family ", family, " has no axis ", std::string(axis)));
}

}  // namespace

Point::Point(std::string family, const std::vector<AxisSpec>* axes, AxisValues values)
    : family_(std::move(family)), axes_(axes), values_(std::move(values)) {}

bool Point::Has(std::string_view axis) const { return FindAxis(*axes_, axis) != nullptr; }

const std::string& Point::Text(std::string_view axis) const {
  for (const auto& [name, value] : values_) {
    if (name != axis) continue;
    // "k has the value n" means that k equals the axis n.
    return value != axis && Has(value) ? Text(value) : value;
  }
  throw NoAxis(family_, axis);
}

std::vector<std::string> Point::Several(std::string_view axis) const {
  const std::string& value = Text(axis);
  const AxisSpec* spec = FindAxis(*axes_, axis);
  if (spec == nullptr || value == spec->default_value) return {};
  return absl::StrSplit(value, '+');
}

double Point::Number(std::string_view axis) const {
  double value = 0;
  if (!absl::SimpleAtod(Text(axis), &value)) {
    throw std::logic_error(absl::StrCat("axis ", std::string(axis), " of family ", family_, " is not a number"));
  }
  return value;
}

workload::Dtype Point::Dtype() const {
  const auto dtype = workload::ParseDtype(Text(kDtypeAxis));
  if (!dtype) throw std::logic_error(absl::StrCat(Text(kDtypeAxis), " is not a precision"));
  return *dtype;
}

bool Point::IsCold() const { return Text(kCacheAxis) == kCold; }

int64_t Point::Ranks() const { return Has(kRanksAxis) ? Int(kRanksAxis) : 1; }

std::string Point::Name() const {
  std::string name = family_;
  for (const auto& [axis, value] : values_) {
    const AxisSpec* spec = FindAxis(*axes_, axis);
    if (spec->default_value.empty() || value != spec->default_value) absl::StrAppend(&name, "/", axis, ":", value);
  }
  return name;
}

std::string Point::FullName() const {
  std::string name = family_;
  for (const auto& [axis, value] : values_) absl::StrAppend(&name, "/", axis, ":", value);
  return name;
}

Point Point::With(std::string_view axis, std::string value) const {
  Point changed = *this;
  const auto found = std::ranges::find(changed.values_, axis, &AxisValues::value_type::first);
  if (found == changed.values_.end()) throw NoAxis(family_, axis);
  found->second = std::move(value);
  return changed;
}

AxisValues AxesOf(const Point& point) {
  AxisValues values;
  for (const AxisSpec& axis : point.axes()) values.emplace_back(axis.name, point.Text(axis.name));
  return values;
}

bool ValidValue(const AxisSpec& axis, const std::vector<AxisSpec>& axes, std::string_view value) {
  if (axis.several) return value == axis.default_value || AreChoices(axis.choices, value);
  if (!axis.choices.empty()) {
    return std::find(axis.choices.begin(), axis.choices.end(), value) != axis.choices.end();
  }
  if (value == axis.default_value && FindAxis(axes, value) != nullptr) return true;
  const bool is_spelled_well = IsShortDecimal(value) && (axis.fractions || value.find('.') == std::string_view::npos);
  if (!is_spelled_well) return false;
  double number = 0;
  return absl::SimpleAtod(absl::string_view(value.data(), value.size()), &number) && number <= kLargestNumber &&
         number >= (axis.fractions ? 0 : 1);
}

std::string ExpectedValues(const AxisSpec& axis) {
  if (axis.several) {
    return absl::StrCat(axis.default_value, ", or some of ", absl::StrJoin(axis.choices, ", "),
                        " in this order: ", axis.choices.front(), "+", axis.choices.back());
  }
  if (!axis.choices.empty()) return absl::StrJoin(axis.choices, ", ");
  return axis.fractions ? "a number from 0, without zeros that it could do without: 6, 2.5" : "a whole number from 1";
}

std::string SharedAxisDoc(const std::string& axis) {
  for (const auto& [name, doc] : kSharedAxisDocs) {
    if (axis == name) return doc;
  }
  return {};
}

AxisSpec SharedAxis(const char* name, std::vector<std::string> choices, std::string default_value, std::string doc) {
  return {
      .name = name, .choices = std::move(choices), .default_value = std::move(default_value), .doc = std::move(doc)};
}

ComputeAndStorage DtypesOf(const Point& point) {
  using workload::Dtype;
  if (point.Text(kDtypeAxis) == kBf16Autocast) return {Dtype::kBf16, Dtype::kFp32};
  const Dtype dtype = point.Dtype();
  return {dtype, dtype == Dtype::kTf32 ? Dtype::kFp32 : dtype};
}

}  // namespace roofbench
