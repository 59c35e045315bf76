#include "lib/harness/check.h"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace roofbench {
namespace {

std::string Shape(const at::Tensor& tensor) { return absl::StrCat("[", absl::StrJoin(tensor.sizes(), ","), "]"); }

}  // namespace

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
  if (result.numel() == 0) return absl::OkStatus();
  const at::Tensor actual = result.detach().to(at::kCPU, at::kDouble).reshape({-1});
  const at::Tensor expected = reference.detach().to(at::kCPU, at::kDouble).reshape({-1});
  const at::Tensor finite = at::isfinite(expected);
  // Where the reference is infinite or NaN the result must be of the same kind; the comparison below is over the rest.
  const at::Tensor same_kind =
      expected.eq(actual).logical_or(expected.isnan().logical_and(actual.isnan())).logical_or(finite);
  const at::Tensor safe = at::where(finite, expected, at::zeros_like(expected));
  const double rms = std::sqrt(safe.square().mean().item<double>());
  const double relative = RelativeTolerance(tolerance);
  const at::Tensor bound = safe.abs().add(rms).mul(relative);
  const at::Tensor error = at::where(finite, actual.sub(safe).abs(), at::zeros_like(safe));
  const at::Tensor good = error.le(bound).logical_and(same_kind);  // a NaN error compares false
  if (good.all().item<bool>()) {
    // Errors too small to be seen one by one, but everywhere: of a formula that is slightly off, say.
    constexpr int64_t kFewest = 64;
    const double error_rms = std::sqrt(error.square().mean().item<double>());
    if (actual.numel() < kFewest || error_rms <= relative / 2 * rms) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrFormat("wrong %s: its errors have a root mean square of %.2g of the reference's (allowed: %.2g)", what,
                        error_rms / rms, relative / 2));
  }
  const at::Tensor badness = at::where(good, at::zeros_like(error), error.sub(bound).nan_to_num(1e300, 1e300).add(1));
  const int64_t worst = badness.argmax().item<int64_t>();
  const int64_t wrong = good.logical_not().sum().item<int64_t>();
  return absl::DataLossError(absl::StrFormat(
      "wrong %s: %d of %d elements are off, the worst (element %d) is %g where the reference has %g (allowed: %.2g "
      "relative)",
      what, wrong, actual.numel(), worst, actual[worst].item<double>(), expected[worst].item<double>(), relative));
}

absl::Status CheckCase(const Case& built, const Tamper& tamper) {
  std::vector<at::Tensor> results = built.result();
  const std::vector<at::Tensor> references = built.reference();
  if (results.empty() || results.size() != references.size()) {
    return absl::InternalError("the case gives no result, or not as many references as results");
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (tamper) tamper(results[i]);
    const std::string what = results.size() == 1 ? "result" : absl::StrCat("result ", i);
    if (absl::Status status = CompareTensors(results[i], references[i], built.tolerance, what); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace roofbench
