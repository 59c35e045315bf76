// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/check.h"

#include <ATen/ops/atleast_1d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace roofbench {
namespace {

std::string Shape(const at::Tensor& tensor) { return absl::StrCat("[", absl::StrJoin(tensor.sizes(), ","), "]"); }

absl::Status CompareIntegers(const at::Tensor& result, const at::Tensor& reference, const std::string& what) {
  const at::Tensor actual = result.to(at::kCPU, at::kLong).reshape({-1});
  const at::Tensor expected = reference.to(at::kCPU, at::kLong).reshape({-1});
  const at::Tensor wrong = actual.ne(expected);
  const int64_t count = wrong.sum().item<int64_t>();
  if (count == 0) return absl::OkStatus();
  const int64_t first = wrong.to(at::kInt).argmax().item<int64_t>();
  return absl::DataLossError(absl::StrFormat(
      "wrong %s: %d of %d elements are off, the first (element %d) is %d where the reference has %d", what, count,
      actual.numel(), first, actual[first].item<int64_t>(), expected[first].item<int64_t>()));
}

// A tensor in double precision, one block at a time: a whole large tensor would need eight times its memory, and every
// intermediate as much again.
class Blocks {
 public:
  explicit Blocks(const at::Tensor& tensor) : flat_(tensor.detach().reshape({-1})) {}

  int64_t count() const { return (flat_.numel() + kElements - 1) / kElements; }
  int64_t Begin(int64_t block) const { return block * kElements; }
  at::Tensor operator[](int64_t block) const {
    const int64_t length = std::min(kElements, flat_.numel() - Begin(block));
    return flat_.narrow(0, Begin(block), length).to(at::kCPU, at::kDouble);
  }

 private:
  static constexpr int64_t kElements = 1 << 18;  // 2 MiB in double precision: intermediates stay in the cache
  at::Tensor flat_;
};

// Deviation of results from their references, accumulated over blocks.
struct Deviation {
  int64_t wrong = 0;
  int64_t worst = 0;  // index of the element that exceeds its bound most
  double worst_excess = -1;
  double worst_actual = 0;
  double worst_expected = 0;
  double squares = 0;  // of the errors

  void Add(const at::Tensor& actual, const at::Tensor& expected, double relative, double rms, int64_t begin) {
    const at::Tensor bound = expected.abs().add_(rms).mul_(relative);
    const at::Tensor error = actual.sub(expected).abs_();
    // An infinite or NaN reference makes the comparison false; those elements are compared below.
    if (error.le(bound).logical_and_(expected.isfinite()).all().item<bool>()) {
      squares += error.square().sum().item<double>();
      return;
    }
    const at::Tensor finite = expected.isfinite();
    // An infinite or NaN reference requires a result of the same kind.
    const at::Tensor same_kind = expected.eq(actual).logical_or(expected.isnan().logical_and(actual.isnan()));
    const at::Tensor good = at::where(finite, error.le(bound), same_kind);
    squares += at::where(finite, error, at::zeros_like(error)).square().sum().item<double>();
    if (good.all().item<bool>()) return;
    wrong += good.logical_not().sum().item<int64_t>();
    // Every wrong element has a larger excess than every correct one; a NaN has the largest.
    const at::Tensor excess =
        at::where(good, at::full_like(error, -1), error.sub(bound).nan_to_num(1e300, 1e300).clamp_min(0));
    const int64_t index = excess.argmax().item<int64_t>();
    if (excess[index].item<double>() <= worst_excess) return;
    worst_excess = excess[index].item<double>();
    worst = begin + index;
    worst_actual = actual[index].item<double>();
    worst_expected = expected[index].item<double>();
  }
};

// Advice where no sum was declared and the errors are small enough to be the rounding of one.
std::string AboutSums(const Tolerance& tolerance, double relative_error) {
  constexpr double kRounding = 1e-2;
  if (workload::Epsilon(tolerance.dtype) == 0 || tolerance.reduction > 1 || !(relative_error < kRounding)) return "";
  return "; a sum of n terms needs Tolerance{.reduction = n} in .Within (docs/your_family.md)";
}

// The sum of each row of [..., n] in double precision and its Euclidean norm (of integers 0), a block at a time: the
// whole in double may not fit.
std::pair<at::Tensor, at::Tensor> SumsAndNorms(const at::Tensor& whole) {
  constexpr int64_t kElements = 1 << 20;
  const at::Tensor rows = at::atleast_1d(whole).unsqueeze(0).flatten(0, -2);
  std::vector<at::Tensor> sums, norms;
  for (const at::Tensor& some : rows.split(std::max<int64_t>(1, kElements / std::max<int64_t>(1, rows.size(1))))) {
    at::Tensor sum = at::zeros({some.size(0)}, whole.options().dtype(at::kDouble));
    at::Tensor squares = at::zeros_like(sum);
    for (const at::Tensor& block : some.split(kElements, 1)) {
      const at::Tensor exact = block.to(at::kDouble);
      sum.add_(exact.sum(1));
      if (whole.is_floating_point()) squares.add_(exact.square().sum(1));
    }
    sums.push_back(sum);
    norms.push_back(squares.sqrt_());
  }
  return {at::cat(sums), at::cat(norms)};
}

}  // namespace

at::Tensor ExactRowSums(const at::Tensor& x) { return SumsAndNorms(x).first; }

double RelativeTolerance(const Tolerance& tolerance) {
  const double epsilon = workload::Epsilon(tolerance.dtype);
  if (epsilon == 0) return 0;
  const double sum = 4 * workload::Epsilon(workload::Dtype::kFp32) * std::sqrt(tolerance.reduction);
  return (2 * epsilon + sum) * std::sqrt(tolerance.roundings) * tolerance.amplification;
}

absl::Status CompareTensors(const at::Tensor& result, const at::Tensor& reference, const Tolerance& tolerance,
                            const std::string& what) {
  if (result.sizes() != reference.sizes()) {
    return absl::DataLossError(
        absl::StrCat("wrong ", what, ": shape ", Shape(result), " where the reference has ", Shape(reference)));
  }
  // Bit-exact comparison, for copies. LibTorch refuses to compare tensors on two devices.
  if (result.device() == reference.device() && result.scalar_type() == reference.scalar_type() &&
      at::equal(result, reference)) {
    return absl::OkStatus();
  }
  // Integers are compared exactly: beyond 2^53, double precision merges adjacent ones.
  if (!result.is_floating_point() && !reference.is_floating_point()) return CompareIntegers(result, reference, what);
  const Blocks actual(result);
  const Blocks expected(reference);
  double squares = 0;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const at::Tensor block = expected[i];
    squares += block.square().nan_to_num_(0, 0, 0).sum().item<double>();
  }
  const auto elements = static_cast<double>(result.numel());
  const double rms = elements > 0 ? std::sqrt(squares / elements) : 0;
  const double relative = RelativeTolerance(tolerance);

  Deviation deviation;
  for (int64_t i = 0; i < expected.count(); ++i)
    deviation.Add(actual[i], expected[i], relative, rms, expected.Begin(i));
  if (deviation.wrong > 0) {
    return absl::DataLossError(
        absl::StrFormat("wrong %s: %d of %d elements are off, the worst (element %d) is %g where the reference has %g "
                        "(allowed: %.2g relative)%s",
                        what, deviation.wrong, result.numel(), deviation.worst, deviation.worst_actual,
                        deviation.worst_expected, relative,
                        AboutSums(tolerance, std::abs(deviation.worst_actual - deviation.worst_expected) /
                                                 (std::abs(deviation.worst_expected) + rms))));
  }
  // Detects errors that are small in each element but systematic, such as those of a slightly wrong formula.
  constexpr double kFewest = 64;
  const double error_rms = elements > 0 ? std::sqrt(deviation.squares / elements) : 0;
  if (elements < kFewest || error_rms <= relative / 2 * rms) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("wrong %s: its errors have a root mean square of %.2g of the reference's (allowed: %.2g)%s", what,
                      error_rms / rms, relative / 2, AboutSums(tolerance, error_rms / rms)));
}

absl::Status CheckRowSums(const at::Tensor& whole, const at::Tensor& sums, const Tolerance& tolerance,
                          const std::string& what) {
  // Finite elements cannot sum to infinity in double precision: that would take 1e270 elements of bf16 or fp32.
  const auto [row_sums, row_norms] = SumsAndNorms(whole.detach());
  const at::Tensor actual = row_sums.to(at::kCPU);
  if (const at::Tensor bad = actual.isfinite().logical_not(); bad.any().item<bool>()) {
    return absl::DataLossError(absl::StrFormat("wrong %s: a NaN or an infinity in %d of %d rows, the first in row %d",
                                               what, bad.sum().item<int64_t>(), bad.numel(),
                                               bad.to(at::kInt).argmax().item<int64_t>()));
  }
  if (!sums.defined()) return absl::OkStatus();
  const at::Tensor expected = sums.detach().to(at::kCPU, at::kDouble).reshape({-1});
  if (expected.sizes() != actual.sizes()) {
    return absl::InternalError(
        absl::StrCat("sums of ", expected.numel(), " rows for a ", what, " of ", actual.numel()));
  }
  const double relative = RelativeTolerance(tolerance);
  const at::Tensor excess =
      actual.sub(expected).abs_().sub_(expected.abs().add_(row_norms.to(at::kCPU)).mul_(relative)).clamp_min_(0);
  const int64_t wrong = excess.gt(0).sum().item<int64_t>();
  if (wrong == 0) return absl::OkStatus();
  const int64_t worst = excess.argmax().item<int64_t>();
  return absl::DataLossError(absl::StrFormat(
      "wrong %s: %d of %d rows do not add up, the worst (row %d) to %g where the reference has %g", what, wrong,
      actual.numel(), worst, actual[worst].item<double>(), expected[worst].item<double>()));
}

namespace {

// `tolerance` widened by three times the effect of rounding on the reference. At most half of a value: larger effects
// of rounding cannot be checked.
Tolerance WithRoomFor(const at::Tensor& rounded, const at::Tensor& reference, Tolerance tolerance) {
  constexpr double kOtherRoundings = 3;
  constexpr double kMost = 0.5;
  const at::Tensor exact = reference.to(at::kCPU, at::kDouble);
  const at::Tensor unit = exact.abs().add_(exact.square().mean().sqrt());
  const double strays = rounded.to(at::kCPU, at::kDouble).sub_(exact).abs_().div_(unit).max().item<double>();
  const double allowed = RelativeTolerance(tolerance);
  if (allowed > 0 && strays > 0) {
    tolerance.amplification *= std::max(1.0, std::min(kOtherRoundings * strays, kMost) / allowed);
  }
  return tolerance;
}

// Compares with a tolerance that includes the reference's own rounding.
absl::Status CompareRounded(const Case& built, std::size_t index, const at::Tensor& result, const at::Tensor& reference,
                            const std::string& what) {
  absl::Status status = CompareTensors(result, reference, built.tolerance, what);
  if (status.ok() || !built.rounded) return status;
  return CompareTensors(result, reference, WithRoomFor(built.rounded().at(index), reference, built.tolerance), what);
}

}  // namespace

absl::Status CheckCase(const Case& built, const Tamper& tamper) {
  std::vector<at::Tensor> results = built.result();
  const std::vector<at::Tensor> references = built.reference();
  if (results.empty() || results.size() != references.size()) {
    return absl::InternalError("the case gives no result, or not as many references as results");
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (tamper.result) tamper.result(results[i]);
    const std::string what = results.size() == 1 ? "result" : absl::StrCat("result ", i);
    if (absl::Status status = CompareRounded(built, i, results[i], references[i], what); !status.ok()) {
      return status;
    }
  }
  if (!built.whole) return absl::OkStatus();
  std::vector<at::Tensor> whole = built.whole();
  std::vector<at::Tensor> sums = built.row_sums ? built.row_sums() : std::vector<at::Tensor>();
  sums.resize(whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (tamper.whole) tamper.whole(whole[i]);
    const std::string what = whole.size() == 1 ? "result" : absl::StrCat("result ", i);
    if (absl::Status status = CheckRowSums(whole[i], sums[i], built.tolerance, what); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace roofbench
