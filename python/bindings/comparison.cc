// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/comparison.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>

#include "lib/workload/tolerance.h"
#include "python/bindings/bindings.h"

namespace roofbench::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;
using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

template <typename Element>
std::span<const Element> ElementsOf(const Array& array) {
  if (array.dtype() != nb::dtype<Element>()) {
    throw std::invalid_argument("mismatch compares with arrays of float64");
  }
  return {static_cast<const Element*>(array.data()), array.size()};
}

// In blocks that stay in a cache: results in fp32 take no second copy.
void AddTo(workload::Comparison& comparison, std::span<const float> actual, std::span<const double> expected) {
  std::array<double, 2048> block{};
  for (std::size_t first = 0; first < actual.size(); first += block.size()) {
    const std::span<const float> part = actual.subspan(first, std::min(block.size(), actual.size() - first));
    std::ranges::copy(part, block.begin());
    comparison.Add(std::span(block).first(part.size()), expected.subspan(first, part.size()));
  }
}

std::string MismatchOf(const Array& result, const Array& reference, double tolerance, const std::string& what) {
  if (!(tolerance >= 0)) throw std::invalid_argument("a negative tolerance");
  if (result.size() != reference.size()) throw std::invalid_argument("mismatch compares arrays of one shape");
  const std::span<const double> expected = ElementsOf<double>(reference);
  workload::Comparison comparison(tolerance, workload::FiniteSquares(expected), static_cast<int64_t>(expected.size()));
  if (result.dtype() == nb::dtype<float>()) {
    AddTo(comparison, ElementsOf<float>(result), expected);
  } else {
    comparison.Add(ElementsOf<double>(result), expected);
  }
  const auto mismatch = comparison.Find(what);
  return mismatch ? mismatch->text : "";
}

double UnseenShareOf(const Array& reference, double tolerance) {
  workload::Match match(tolerance);
  std::array<double, 2048> block{};
  const std::span<const double> values = ElementsOf<double>(reference);
  for (std::size_t first = 0; first < values.size(); first += block.size()) {
    const auto part = values.subspan(first, std::min(block.size(), values.size() - first));
    const auto end = std::ranges::copy_if(part, block.begin(), [](double value) { return std::isfinite(value); }).out;
    match.Add({block.begin(), end}, {block.begin(), end});
  }
  return match.UnseenShare();
}

}  // namespace

void BindComparison(nb::module_& core) {
  core.def(
      "relative_tolerance",
      [](const std::string& dtype, double reduction, double roundings, double amplification) {
        return workload::RelativeTolerance({.dtype = DtypeNamed(dtype),
                                            .reduction = reduction,
                                            .roundings = roundings,
                                            .amplification = amplification});
      },
      "dtype"_a, nb::kw_only(), "reduction"_a = 1, "roundings"_a = 1, "amplification"_a = 1,
      "Largest |result - reference| in units of |reference| + rms(reference), by lib/workload/tolerance.h");
  core.def("with_room_for_rounding", workload::WithRoomForRounding, "relative"_a, "strays"_a,
           "A relative tolerance where rounding alone moves the reference by `strays`");
  core.def("mismatch", MismatchOf, "result"_a, "reference"_a, "tolerance"_a, nb::kw_only(), "what"_a = "result",
           nb::sig("def mismatch(result: object, reference: object, tolerance: float, *, what: str = 'result') -> str"),
           "Why the result is wrong, or \"\". C-contiguous buffers of float64 and of one shape; the result may be "
           "float32");
  core.def("unseen_share", UnseenShareOf, "reference"_a, "tolerance"_a,
           nb::sig("def unseen_share(reference: object, tolerance: float) -> float"),
           "The share of the numbers, other than 0, that are so small beside the rest that zeros would pass: of a "
           "C-contiguous buffer of float64");
}

}  // namespace roofbench::python
