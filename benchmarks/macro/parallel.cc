// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/macro/parallel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/kernels/operators/products/tile_product.h"

namespace roofbench {
namespace {

using models::ParallelKind;

constexpr char kBucketAxis[] = "bucket_mib";
constexpr char kBucketMib[] = "25";  // as DistributedDataParallel's

// In the order of models::ParallelPhase.
const std::vector<std::string> kPhases = {"forward", "backward", "synchronize", "optimizer"};

double BucketBytes(const Point& at) { return at.Number(kBucketAxis) * static_cast<double>(1_Mi); }

// The peak of a rank. Gradients take as many bytes as parameters.
double PeakBytes(const Point& at, const ParallelWork& work) {
  const double n = at.Number(kRanksAxis);
  const double model = work.parameters;
  const double kept = model + work.optimizer;
  const double computes = work.peak - kept;
  // Not all families have buckets.
  const auto in_buckets = [&] {
    return work.operands + work.loss_gradient + workload::BucketedPeak(work.units, BucketBytes(at));
  };
  switch (ParallelAt(at)->kind) {
    case ParallelKind::kNaive:
    case ParallelKind::kOverlap:
    case ParallelKind::kTensor:
      return work.peak;
    case ParallelKind::kFlat:
      return kept + std::max(computes, work.operands + 2 * model);
    case ParallelKind::kBucketed:
      return kept + std::max(computes, in_buckets());
    case ParallelKind::kTorch:
      return kept + computes + model;
    case ParallelKind::kZero1:
      return model + work.optimizer / n +
             std::max({computes, in_buckets(), workload::ScatteredPeak(work.units, BucketBytes(at), n)});
    case ParallelKind::kFsdp:
      return work.sharded_peak;
  }
  return work.peak;
}

double FormulaBytes(const Point& at, const ParallelWork& work) {
  const double n = at.Number(kRanksAxis);
  const models::ParallelRow& row = *ParallelAt(at);
  return work.passes * (n - 1) / n * (row.rounds > 0 ? row.rounds * work.parameters : 2 * work.summed);
}

}  // namespace

std::vector<AxisSpec> ParallelAxes() {
  std::vector<std::string> names = {kNotParallel};
  for (const models::ParallelRow& row : models::kParallelRows) names.emplace_back(row.name);
  return {{.name = kParallelAxis,
           .choices = names,
           .default_value = kNotParallel,
           .doc = "how ranks share the step (docs/distributed.md); the batch is then that of each rank"},
          {.name = kBucketAxis,
           .default_value = kBucketMib,
           .doc = "MiB of gradients in a bucket of ddp_bucketed and zero1"},
          {.name = kRanksAxis, .default_value = "1"}};
}

std::vector<AxisSpec> TensorParallelAxes() {
  return {{.name = kParallelAxis,
           .choices = {kNotParallel, "tensor"},
           .default_value = kNotParallel,
           .doc = "tensor: each rank has its heads and features of the model (docs/distributed.md)"},
          {.name = kRanksAxis, .default_value = "1"}};
}

const models::ParallelRow* ParallelAt(const Point& at) {
  const std::string& name = at.Text(kParallelAxis);
  return name == kNotParallel ? nullptr : &RowOf(models::kParallelRows, name);
}

int64_t ModelParts(const Point& at) {
  const models::ParallelRow* const row = ParallelAt(at);
  return row != nullptr && row->kind == ParallelKind::kTensor ? at.Ranks() : 1;
}

int64_t BatchParts(const Point& at) {
  const models::ParallelRow* const row = ParallelAt(at);
  return row != nullptr && row->splits_batch ? at.Ranks() : 1;
}

absl::Status SupportsRanks(const Point& at) {
  const models::ParallelRow* const row = ParallelAt(at);
  if (row == nullptr) {
    if (at.Ranks() == 1) return absl::OkStatus();
    return absl::UnimplementedError("parallel:none is one process; --axis=parallel=… chooses how ranks share the step");
  }
  const std::string& impl = at.Text(kImplAxis);
  if (impl == "eager" || impl == "native") return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("parallel:", row->name, " exchanges data within a step, which impl:",
                                               impl, " does not support; impl:eager and impl:native do"));
}

absl::Status SupportsChoice() {
  if (kernels::TileLinearKernelsHere() != nullptr) return absl::OkStatus();
  return absl::UnimplementedError(
      "this processor has no dot product of bf16, by which our own products are measured against LibTorch's: "
      "impl:native is the same");
}

std::vector<std::string_view> ParallelKernels(const Point& at) {
  if (ParallelAt(at) == nullptr) return {};
  return {models::kSharedStep};
}

absl::Status SupportsParallel(const Point& at) {
  const models::ParallelRow* const row = ParallelAt(at);
  if (absl::Status status = SupportsRanks(at); !status.ok() || row == nullptr) return status;
  const bool has_buckets = row->kind == ParallelKind::kBucketed || row->kind == ParallelKind::kZero1;
  if (!has_buckets && at.Text(kBucketAxis) != kBucketMib) {
    return absl::UnimplementedError(absl::StrCat("parallel:", row->name, " has no buckets of ", kBucketAxis));
  }
  const bool computes_as_stored = DtypesOf(at).compute == workload::Dtype::kFp32;
  if ((row->kind == ParallelKind::kFsdp || row->kind == ParallelKind::kTensor) && !computes_as_stored) {
    return absl::UnimplementedError(
        absl::StrCat("parallel:", row->name, " takes dtype:fp32 alone: autocast would keep a copy of every weight"));
  }
  return absl::OkStatus();
}

workload::Cost ParallelCost(const Point& at, const ParallelWork& work) {
  workload::Cost cost = workload::Repeated(work.cost, at.Number(kRanksAxis));
  cost.resident_bytes = PeakBytes(at, work);
  return cost;
}

models::ParallelRun::Options ParallelOptions(const Point& at, const Inputs& in) {
  return {.kind = ParallelAt(at)->kind,
          .bucket_bytes = static_cast<int64_t>(BucketBytes(at)),
          .clock = in.device().NewClock()};
}

void DescribeExchanges(const Point& at, const ParallelWork& work, const StepExchanges& step, Case& built) {
  constexpr double kMilliseconds = 1e3;
  const auto add = [&](const std::string& name, auto value) {
    built.figures.emplace_back(name, [times = step.times, value] { return value(times()); });
  };
  using Times = models::ParallelTimes;
  built.figures.emplace_back("sent_bytes", step.sent_bytes);
  built.AddFigure("predicted_sent_bytes", FormulaBytes(at, work));
  add("computation_ms", [](const Times& times) { return kMilliseconds * times.computation; });
  if (at.Ranks() == 1) return;  // nothing to communicate
  add("communication_ms", [](const Times& times) { return kMilliseconds * times.communication; });
  add("exposed_communication_ms", [](const Times& times) { return kMilliseconds * times.exposed; });
  add("communication_overlap", [](const Times& times) { return times.Overlap(); });
}

void DescribeParallel(const Point& at, const ParallelWork& work, const std::shared_ptr<models::ParallelRun>& run,
                      Case& built) {
  built.phases.assign(kPhases.begin(), kPhases.end() - (work.updates ? 0 : 1));
  built.autograd = true;
  built.cost = ParallelCost(at, work);
  const auto add = [&](const std::string& name, auto value) {
    built.figures.emplace_back(name, [run, value] { return value(*run); });
  };
  using Run = models::ParallelRun;
  add("parameter_mem", [](const Run& r) { return r.ParameterBytes(); });
  add("gradient_mem", [](const Run& r) { return r.GradientBytes(); });
  if (work.updates) add("optimizer_mem", [](const Run& r) { return r.OptimizerBytes(); });
  DescribeExchanges(at, work,
                    {.sent_bytes = [run] { return run->SentBytes(); },
                     .times = [run]() -> const models::ParallelTimes& { return run->MeasuredTimes(); }},
                    built);
}

void StepParallel(models::ParallelRun& run, timing::PhaseMarker& marker) {
  run.Step([&](models::ParallelPhase phase) { marker.End(static_cast<int>(phase)); });
}

}  // namespace roofbench
