// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/check.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/atleast_1d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/take.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/readable.h"
#include "lib/workload/comparison.h"

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
      "wrong %s: off in %d of %d elements, the first (element %d) is %d where the reference has %d", what, count,
      actual.numel(), first, actual[first].item<int64_t>(), expected[first].item<int64_t>()));
}

// Elements that exist in double precision at a time: a whole large tensor would need eight times its memory, and every
// intermediate as much again. 2 MiB, so that intermediates stay in the cache.
constexpr int64_t kBlockElements = 1 << 18;

// The elements of a block, which must outlive them.
std::span<const double> Values(const at::Tensor& block) {
  return {block.const_data_ptr<double>(), static_cast<std::size_t>(block.numel())};
}

// Advice where no sum was declared and the errors are small enough to be the rounding of one.
std::string AboutSums(const Tolerance& tolerance, double relative_error) {
  constexpr double kRounding = 1e-2;
  if (workload::Epsilon(tolerance.dtype) == 0 || tolerance.reduction > 1 || !(relative_error < kRounding)) return "";
  return "; a sum of n terms needs Tolerance{.reduction = n} in .Within (docs/your_family.md)";
}

// Sum and sum of squares of values in double precision, as fast as they can be read.
template <typename T>
std::array<double, 2> SumsOf(std::span<const T> values) {
  constexpr std::size_t kLanes = 8;  // a compiler must not change the order of one sum
  std::array<double, kLanes> sums = {}, squares = {};
  const auto add = [&](std::size_t i, std::size_t lane) {
    const auto value = static_cast<double>(values[i]);
    sums[lane] += value;
    squares[lane] += value * value;
  };
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  }
  for (std::size_t i = whole; i < values.size(); ++i) add(i, i - whole);
  return {std::accumulate(sums.begin(), sums.end(), 0.0), std::accumulate(squares.begin(), squares.end(), 0.0)};
}

// [rows, 2]: SumsOf each row of a contiguous matrix on the host.
at::Tensor HostSums(const at::Tensor& rows) {
  constexpr int64_t kPiece = 1 << 14;
  const int64_t length = rows.size(1);
  const int64_t pieces = std::max<int64_t>(1, (length + kPiece - 1) / kPiece);
  const at::Tensor sums = at::zeros({rows.size(0), pieces, 2}, at::kDouble);
  double* const out = sums.mutable_data_ptr<double>();
  AT_DISPATCH_ALL_TYPES_AND2(at::kBFloat16, at::kHalf, rows.scalar_type(), "HostSums", [&] {
    const auto* const data = rows.const_data_ptr<scalar_t>();
    at::parallel_for(0, rows.size(0) * pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % pieces * kPiece;
        const auto count = static_cast<std::size_t>(std::min(kPiece, length - first));
        const auto [sum, squares] = SumsOf(std::span(data + i / pieces * length + first, count));
        out[2 * i] = sum;
        out[2 * i + 1] = squares;
      }
    });
  });
  return sums.sum(1);
}

// The sum of each row of [..., n] in double precision and its Euclidean norm (of integers 0), a block at a time: the
// whole in double may not fit.
std::pair<at::Tensor, at::Tensor> SumsAndNorms(const at::Tensor& whole) {
  constexpr int64_t kElements = 1 << 20;
  const at::Tensor rows = at::atleast_1d(whole).unsqueeze(0).flatten(0, -2);
  if (rows.is_cpu() && rows.is_contiguous() && rows.element_size() > 1) {
    const at::Tensor sums = HostSums(rows);
    const at::Tensor squares = whole.is_floating_point() ? sums.select(1, 1) : at::zeros_like(sums.select(1, 1));
    return {sums.select(1, 0).contiguous(), squares.sqrt()};
  }
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

// Integers may be half of one from a reference that is not rounded. What was rounded is the result of fp32 arithmetic.
Tolerance OfRounded(const at::Tensor& result, Tolerance tolerance) {
  if (result.is_floating_point()) return tolerance;
  tolerance.absolute = std::max(tolerance.absolute, 0.5);
  if (workload::Epsilon(tolerance.dtype) == 0) tolerance.dtype = workload::Dtype::kFp32;
  return tolerance;
}

// Elements of a row of the tensor, as RowRange counts rows.
int64_t RowLength(const at::Tensor& tensor) { return tensor.dim() > 1 ? std::max<int64_t>(1, tensor.size(-1)) : 1; }

// 0 of a tensor without dimensions.
int64_t Rows(const at::Tensor& tensor) { return tensor.dim() > 0 ? tensor.numel() / RowLength(tensor) : 0; }

// Compares block by block. of_result(rows) and of_reference(rows) return rows of a tensor like `result` in double
// precision.
template <typename OfResult, typename OfReference>
absl::Status CompareBlocks(const at::Tensor& result, OfResult of_result, OfReference of_reference,
                           const Tolerance& tolerance, const std::string& what, double* unseen) {
  const int64_t length = RowLength(result);
  const int64_t rows = result.numel() / length;
  const auto each_block = [&](const auto& visit) {
    const int64_t most = std::max<int64_t>(1, kBlockElements / length);
    for (int64_t first = 0; first < rows; first += most) visit(RowRange{first, std::min(most, rows - first)});
  };
  const auto on_host = [](const at::Tensor& block) { return block.to(at::kCPU).contiguous(); };
  const Tolerance allowed = OfRounded(result, tolerance);
  const auto add_to = [&](auto& compared) {
    each_block([&](const RowRange& block) {
      const at::Tensor actual = on_host(of_result(block));
      const at::Tensor expected = on_host(of_reference(block));
      compared.Add(Values(actual), Values(expected));
    });
  };
  workload::Match match(RelativeTolerance(allowed), allowed.absolute, allowed.rms_part);
  add_to(match);
  if (unseen != nullptr) *unseen = std::max(*unseen, match.UnseenShare());
  if (match.IsSure()) return absl::OkStatus();
  double squares = 0;
  each_block([&](const RowRange& block) { squares += workload::FiniteSquares(Values(on_host(of_reference(block)))); });
  workload::Comparison comparison(RelativeTolerance(allowed), squares, result.numel(), allowed.absolute,
                                  allowed.rms_part);
  add_to(comparison);
  const auto mismatch = comparison.Find(what);
  if (!mismatch) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(mismatch->text, AboutSums(tolerance, mismatch->relative_error)));
}

}  // namespace

at::Tensor ExactRowSums(const at::Tensor& x) { return SumsAndNorms(x).first; }

absl::Status CompareTensors(const at::Tensor& result, const at::Tensor& reference, const Tolerance& tolerance,
                            const std::string& what, double* unseen) {
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
  const auto rows_of = [](const at::Tensor& flat) { return [&flat](const RowRange& rows) { return rows.Of(flat); }; };
  const at::Tensor actual = result.detach().reshape({-1});
  const at::Tensor expected = reference.detach().reshape({-1});
  return CompareBlocks(actual, rows_of(actual), rows_of(expected), tolerance, what, unseen);
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
  at::Tensor norms = row_norms.to(at::kCPU);
  if (const at::Tensor beyond = norms.isinf(); beyond.any().item<bool>()) {  // as squares of 1e200 are
    const at::Tensor rows = whole.detach().reshape({actual.numel(), -1});
    const at::Tensor largest = rows.abs().amax(1).to(at::kCPU, at::kDouble);
    norms = at::where(beyond, largest.mul(std::sqrt(static_cast<double>(rows.size(1)))), norms);
  }
  const at::Tensor excess = actual.sub(expected).abs_().sub_(expected.abs().add_(norms).mul_(relative)).clamp_min_(0);
  const int64_t wrong = excess.gt(0).sum().item<int64_t>();
  if (wrong == 0) return absl::OkStatus();
  const int64_t worst = excess.argmax().item<int64_t>();
  return absl::DataLossError(absl::StrFormat(
      "wrong %s: %d of %d rows do not add up, the worst (row %d) to %g where the reference has %g", what, wrong,
      actual.numel(), worst, actual[worst].item<double>(), expected[worst].item<double>()));
}

namespace {

Tolerance WithRoomFor(const at::Tensor& rounded, const at::Tensor& reference, Tolerance tolerance) {
  const at::Tensor exact = reference.to(at::kCPU, at::kDouble);
  const at::Tensor unit = exact.abs().add_(exact.square().mean().sqrt());
  const double strays = rounded.to(at::kCPU, at::kDouble).sub_(exact).abs_().div_(unit).max().item<double>();
  const double allowed = RelativeTolerance(tolerance);
  if (allowed > 0) tolerance.amplification *= workload::WithRoomForRounding(allowed, strays) / allowed;
  return tolerance;
}

// Compares with a tolerance that includes the reference's own rounding.
absl::Status CompareRounded(const Case& built, std::size_t index, const at::Tensor& result, const at::Tensor& reference,
                            const std::string& what, double* unseen) {
  const Tolerance& tolerance = built.ToleranceOf(index);
  absl::Status status = CompareTensors(result, reference, tolerance, what, unseen);
  if (status.ok() || !built.rounded) return status;
  return CompareTensors(result, reference, WithRoomFor(built.rounded().at(index), reference, tolerance), what, unseen);
}

absl::Status CompareRows(const Case& built, const at::Tensor& result, const std::string& what, double* unseen) {
  return CompareBlocks(
      result, [&](const RowRange& rows) { return rows.Of(result.detach()); }, built.reference_rows,
      built.ToleranceOf(0), what, unseen);
}

std::string BytesAt(const at::Tensor& tensor, const std::vector<int64_t>& places) {
  // Of one byte: LibTorch does not index all of these types.
  const at::Tensor read = tensor.element_size() == 1 ? tensor.view(at::kByte) : tensor;
  const at::Tensor values = at::take(read, at::tensor(places, at::kLong).to(tensor.device())).cpu();
  return {static_cast<const char*>(values.const_data_ptr()), values.nbytes()};
}

}  // namespace

OperandSample::OperandSample(const std::vector<at::Tensor>& operands, std::mt19937_64& random) {
  constexpr std::size_t kElements = 256;
  for (const at::Tensor& operand : operands) {
    if (operand.numel() == 0) continue;
    std::uniform_int_distribution<int64_t> below(0, operand.numel() - 1);
    std::vector<int64_t> places(kElements);
    for (int64_t& place : places) place = below(random);
    std::string bytes = BytesAt(operand.detach(), places);
    elements_.push_back({operand.detach(), std::move(places), std::move(bytes)});
  }
}

absl::Status OperandSample::CheckUnchanged() const {
  for (const auto& [operand, places, bytes] : elements_) {
    if (BytesAt(operand, places) == bytes) continue;
    return absl::DataLossError(absl::StrCat("the step changed an operand, of shape ", Shape(operand),
                                            "; what it updates is part of its result (docs/your_family.md)"));
  }
  return absl::OkStatus();
}

bool SharesMemory(const at::Tensor& tensor, const std::vector<at::Tensor>& others) {
  return std::any_of(others.begin(), others.end(), [&](const at::Tensor& other) { return other.is_alias_of(tensor); });
}

void OperandSample::Leave(const std::vector<at::Tensor>& others) {
  std::erase_if(elements_, [&](const Elements& one) { return SharesMemory(one.operand, others); });
}

namespace {

absl::Status CheckReadable(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_cpu() || !tensor.is_contiguous()) continue;
    if (!IsReadable(tensor.const_data_ptr(), tensor.nbytes())) {
      return absl::DataLossError("the step left a result that cannot be read: its memory is protected");
    }
  }
  return absl::OkStatus();
}

// Reads the list of open files, which takes longer than a look between samples may.
absl::Status CheckNotServed(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_cpu() || !tensor.is_contiguous() || !IsServed(tensor.const_data_ptr(), tensor.nbytes())) continue;
    return absl::DataLossError(
        "the step left a result whose memory is filled when it is read (userfaultfd): its work is not in the step");
  }
  return absl::OkStatus();
}

}  // namespace

void Invalidate(const std::vector<at::Tensor>& tensors) {
  constexpr int64_t kWrongBy = 85;  // twice is wrong as well, which an inversion of all bits is not
  const at::NoGradGuard no_grad;
  for (at::Tensor tensor : tensors) {
    if (tensor.is_floating_point()) {
      tensor.fill_(std::numeric_limits<double>::quiet_NaN());
    } else if (tensor.scalar_type() == at::kBool) {
      tensor.logical_not_();
    } else {
      tensor.add_(kWrongBy);
    }
  }
}

std::vector<at::Tensor> WholeResult(const Case& built) {
  std::vector<at::Tensor> whole = built.whole ? built.whole() : std::vector<at::Tensor>();
  return whole.empty() ? built.result() : whole;
}

std::function<absl::Status()> KeepsOperands(std::shared_ptr<const void> object, std::size_t size,
                                            const std::vector<at::Tensor>& operands) {
  using Weak = c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;
  struct Handle {
    std::size_t offset;  // of the pointer that a tensor is
    Weak operand;        // which a step may have released
    const void* data;
  };
  const auto held = [](const void* from, std::size_t offset) {
    const void* pointer;
    std::memcpy(&pointer, static_cast<const char*>(from) + offset, sizeof(pointer));
    return pointer;
  };
  std::vector<Handle> handles;
  for (std::size_t offset = 0; offset + sizeof(void*) <= size; offset += sizeof(void*)) {
    for (const at::Tensor& operand : operands) {
      if (held(object.get(), offset) != operand.unsafeGetTensorImpl()) continue;
      handles.push_back({offset, Weak(operand.getIntrusivePtr()), operand.const_data_ptr()});
    }
  }
  return [object = std::move(object), handles = std::move(handles), held]() -> absl::Status {
    const void* const none = at::Tensor().unsafeGetTensorImpl();
    const bool kept = std::ranges::all_of(handles, [&](const Handle& handle) {
      const void* const now = held(object.get(), handle.offset);
      if (now == none) return true;
      const at::Tensor operand(handle.operand.lock());
      return now == operand.unsafeGetTensorImpl() && operand.const_data_ptr() == handle.data;
    });
    if (kept) return absl::OkStatus();
    return absl::DataLossError(
        "a step put another tensor into the place of an operand, which the reference reads as well: keep it elsewhere");
  };
}

std::function<std::vector<at::Tensor>()> ReadOnly(std::vector<at::Tensor> operands, const Case& built) {
  std::erase_if(operands, [](const at::Tensor& operand) { return !operand.is_floating_point(); });
  return [operands = std::move(operands), of = Case{.result = built.result, .whole = built.whole}] {
    const std::vector<at::Tensor> results = WholeResult(of);
    std::vector<at::Tensor> read = operands;
    std::erase_if(read, [&](const at::Tensor& operand) { return SharesMemory(operand, results); });
    return read;
  };
}

SomeRows::SomeRows(const Case& built, std::mt19937_64& random) : built_(&built) {
  constexpr int64_t kRanges = 4;
  constexpr int64_t kElements = 256;
  const auto below = [&](int64_t count) { return std::uniform_int_distribution<int64_t>(0, count - 1)(random); };
  for (const at::Tensor& result : WholeResult(built)) {
    std::vector<RowRange>& ranges = ranges_.emplace_back();
    const int64_t rows = Rows(result);
    const int64_t count = std::min(rows, std::max<int64_t>(1, kElements / RowLength(result)));
    for (int64_t i = 0; count > 0 && i < kRanges; ++i) ranges.push_back({below(rows - count + 1), count});
  }
}

SomeRows::SomeRows(const Case& built, const std::vector<RowRange>& rows)
    : built_(&built), ranges_(WholeResult(built).size(), rows) {}

void SomeRows::Invalidate() const {
  // To overwrite more takes longer than a look at the rows.
  constexpr std::size_t kAllBytes = std::size_t{16} << 20;
  const std::vector<at::Tensor> whole = WholeResult(*built_);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (whole[i].nbytes() <= kAllBytes || !whole[i].is_contiguous()) {
      roofbench::Invalidate({whole[i]});
      continue;
    }
    const at::Tensor rows = whole[i].dim() > 1 ? whole[i].flatten(0, -2) : whole[i];
    // Ranges may overlap, and two inversions of a bool are none.
    int64_t end = 0;
    std::vector<RowRange> sorted = ranges_[i];
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [first, count] : sorted) {
      const int64_t begin = std::max(first, end);
      end = std::max(end, first + count);
      roofbench::Invalidate({rows.narrow(0, begin, end - begin)});
    }
  }
}

absl::Status SomeRows::Check() const {
  if (built_ == nullptr) return absl::OkStatus();
  const std::vector<at::Tensor> whole = WholeResult(*built_);
  if (absl::Status status = CheckReadable(whole); !status.ok()) return status;
  for (std::size_t i = 0; i < std::min(whole.size(), ranges_.size()); ++i) {
    for (const RowRange& some : ranges_[i]) {
      if (some.first + some.count > Rows(whole[i])) continue;
      const at::Tensor actual = some.Of(whole[i].detach());
      if (built_->reference_rows) {
        absl::Status status =
            CompareTensors(actual, built_->reference_rows(some), OfRounded(whole[i], built_->ToleranceOf(0)),
                           absl::StrCat("rows from ", some.first));
        if (!status.ok()) return status;
      } else if (whole[i].is_floating_point() && actual.isnan().any().item<bool>()) {
        return absl::DataLossError(absl::StrCat("wrong result: a NaN among ", some.count, " rows from ", some.first));
      }
    }
  }
  return absl::OkStatus();
}

namespace {

// Of the results, without the sums of the whole.
absl::Status CheckResults(const Case& built, const Tamper& tamper, double* unseen) {
  if (built.whole) {  // before a sample of it is read
    if (absl::Status status = CheckReadable(built.whole()); !status.ok()) return status;
  }
  std::vector<at::Tensor> results = built.result();
  const std::vector<at::Tensor> references = built.reference ? built.reference() : std::vector<at::Tensor>();
  if (results.empty() || results.size() != (built.reference_rows ? 1 : references.size())) {
    return absl::InternalError("the case gives no result, or not as many references as results");
  }
  if (absl::Status status = CheckReadable(results); !status.ok()) return status;
  if (absl::Status status = CheckNotServed(results); !status.ok()) return status;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (tamper.result) tamper.result(results[i]);
    const std::string what = results.size() == 1 ? "result" : absl::StrCat("result ", i);
    absl::Status status = built.reference_rows ? CompareRows(built, results[i], what, unseen)
                                               : CompareRounded(built, i, results[i], references[i], what, unseen);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckOperands(const Case& built) {
  return built.keeps_operands ? built.keeps_operands() : absl::OkStatus();
}

}  // namespace

bool CanCheckPart(const Case& built) { return built.reference_rows || built.whole; }

absl::Status CheckPart(const Case& built, std::mt19937_64& random) {
  if (absl::Status status = CheckOperands(built); !status.ok()) return status;
  constexpr int kLooks = 8;
  absl::Status status;
  if (!built.reference_rows) status = CheckResults(built, {}, nullptr);
  for (int look = 0; look < kLooks && status.ok(); ++look) status = SomeRows(built, random).Check();
  return status;
}

absl::Status CheckCase(const Case& built, const Tamper& tamper, double* unseen) {
  if (absl::Status status = CheckOperands(built); !status.ok()) return status;
  if (absl::Status status = CheckResults(built, tamper, unseen); !status.ok() || !built.whole) return status;
  std::vector<at::Tensor> whole = built.whole();
  std::vector<at::Tensor> sums = built.row_sums ? built.row_sums() : std::vector<at::Tensor>();
  sums.resize(whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (tamper.whole) tamper.whole(whole[i]);
    const std::string what = whole.size() == 1 ? "result" : absl::StrCat("result ", i);
    if (absl::Status status = CheckRowSums(whole[i], sums[i], built.ToleranceOf(i), what); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace roofbench
