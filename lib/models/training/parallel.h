// SPDX-License-Identifier: Apache-2.0
// Training on several ranks: what each of them keeps of a model, what they exchange, and when.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lib/models/block/forward_hooks.h"
#include "lib/ranks/group.h"
#include "lib/workload/collectives.h"

namespace roofbench::models {

// The row of lib/device/unverified.cc that stands for steps that GPUs share.
inline constexpr char kSharedStep[] = "SharedStep";

// The parts of all ranks, joined along a dimension in the order of the ranks; all have the shape of this rank's `part`.
at::Tensor JoinedParts(ranks::Group& group, const at::Tensor& part, int64_t dimension);

// The collectives of a step. Without `exchanges` none takes place, so that computation can be timed alone: sums are
// this rank's terms, and gathered arrays repeat its own part.
class Traffic {
 public:
  using Work = std::unique_ptr<ranks::Work>;  // nullptr: it has ended
  using Kind = workload::CollectiveKind;

  explicit Traffic(ranks::Group& group) : group_(group) {}
  ranks::Group& group() const { return group_; }

  void AllReduce(at::Tensor& tensor) { Do(Kind::kAllReduce, /*overlaps=*/false, tensor, tensor); }
  Work StartAllReduce(at::Tensor& tensor) { return Do(Kind::kAllReduce, /*overlaps=*/true, tensor, tensor); }
  Work StartAllGather(at::Tensor& whole, at::Tensor part) {
    return Do(Kind::kAllGather, /*overlaps=*/true, whole, part);
  }
  // May overwrite `whole`.
  void ReduceScatter(at::Tensor& part, at::Tensor& whole) { Do(Kind::kReduceScatter, /*overlaps=*/false, whole, part); }
  Work StartReduceScatter(at::Tensor& part, at::Tensor& whole) {
    return Do(Kind::kReduceScatter, /*overlaps=*/true, whole, part);
  }

  // From now on. Forgets the exchanges so far.
  void Restart(bool exchanges);
  bool exchanges() const { return exchanges_; }
  // Records an exchange of so many elements like those of `like`, unless none takes place.
  void Note(Kind kind, bool overlaps, int64_t elements, const at::Tensor& like);
  // Repeats the exchanges noted so far, in their order, on memory of its own.
  std::function<void()> Repetition() const;
  // Sent for them by the busiest rank, by Gloo's algorithms.
  double SentBytes() const;

 private:
  struct Exchange {
    Kind kind;
    bool overlaps;                // others begin before it ends
    int64_t elements;             // of the whole array
    at::TensorOptions placement;  // its type and device
  };
  static Work Begin(ranks::Group& group, Kind kind, bool overlaps, at::Tensor& whole, at::Tensor& part);
  Work Do(Kind kind, bool overlaps, at::Tensor& whole, at::Tensor& part);

  ranks::Group& group_;
  bool exchanges_ = true;
  std::vector<Exchange> done_;
};

// A parameter of a model, whose handle Parallel::Share changes.
struct SharedParameter {
  static constexpr int64_t kWhole = -1;
  at::Tensor tensor;
  std::size_t unit = 0;  // InUnit's that reads it
  // The dimension along which ParallelKind::kTensor divides it; kWhole: every rank has all of it.
  int64_t split = kWhole;
};

std::vector<at::Tensor> TensorsOf(const std::vector<SharedParameter>& parameters);
std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& tensors);

enum class ParallelKind { kNaive, kFlat, kOverlap, kBucketed, kTorch, kZero1, kFsdp, kTensor };

// A value of the axis `parallel`.
struct ParallelRow {
  const char* name;
  ParallelKind kind;
  bool splits_batch;     // each rank has its part of the batch; otherwise all have the whole batch
  bool needs_optimizer;  // what it divides is the optimizer's state
  double rounds;         // a rank sends so many times (n-1)/n of the parameters' bytes; 0: activations instead
};
inline constexpr std::array<ParallelRow, 8> kParallelRows = {{
    {"ddp_naive", ParallelKind::kNaive, true, false, 2},
    {"ddp_flat", ParallelKind::kFlat, true, false, 2},
    {"ddp_overlap", ParallelKind::kOverlap, true, false, 2},
    {"ddp_bucketed", ParallelKind::kBucketed, true, false, 2},
    {"ddp_torch", ParallelKind::kTorch, true, false, 2},
    {"zero1", ParallelKind::kZero1, true, true, 2},
    {"fsdp", ParallelKind::kFsdp, true, false, 3},
    {"tensor", ParallelKind::kTensor, false, false, 0},
}};

// How the ranks of a group share a model: hooks of its forward pass, and calls around the passes of a step.
//   ddp_naive     every rank has the model; after backward, one all-reduce of each gradient after the other
//   ddp_flat      the same, one all-reduce of all gradients together
//   ddp_overlap   one of each gradient, which begins as soon as backward has it
//   ddp_bucketed  one of each bucket of gradients, likewise
//   ddp_torch     LibTorch's Reducer, which does the same with its own defaults
//   zero1         every rank has the parameters and updates its part of each bucket of them (arXiv:1910.02054), whose
//                 reduce-scatter begins as soon as backward has its gradients
//   fsdp          every rank has its part of each unit's parameters, gathers a unit for forward and backward while they
//                 are in the one before, and keeps its part of the gradients (arXiv:2304.11277)
//   tensor        every rank has its part of each weight, and computes a term of each block's sums (arXiv:1909.08053)
class Parallel : public ForwardHooks {
 public:
  explicit Parallel(ranks::Group& group) : traffic_(group) {}
  Parallel(const Parallel&) = delete;
  Parallel& operator=(const Parallel&) = delete;
  // `bucket_bytes` of ddp_bucketed and zero1. The group must outlive it.
  static std::unique_ptr<Parallel> Make(ParallelKind kind, ranks::Group& group, int64_t bucket_bytes);

  // Takes a model's parameters, with the same values on every rank, in the order in which its forward pass uses them.
  // Called once, before the first step; the model must live as long.
  virtual void Share(std::vector<SharedParameter> parameters) = 0;

  // The tensors that this rank's optimizer updates, with gradients between AfterBackward and ForgetGradients.
  virtual const std::vector<at::Tensor>& Owned() const = 0;
  // Before forward, before backward, and after backward, when it returns with the gradients of the whole batch.
  virtual void BeforeForward() {}
  virtual void BeforeBackward() {}
  virtual void AfterBackward() {}
  // After the optimizer.
  virtual void AfterUpdate() {}
  virtual void ForgetGradients();

  // The tensors of the model's parameters that the ranks have together, from those that each has besides Owned(): equal
  // on all ranks, for checks.
  virtual std::vector<at::Tensor> Whole(const std::vector<at::Tensor>& owned) = 0;

  Traffic& traffic() { return traffic_; }

 protected:
  int size() const { return traffic_.group().size(); }
  int rank() const { return traffic_.group().rank(); }

 private:
  Traffic traffic_;
};

}  // namespace roofbench::models
