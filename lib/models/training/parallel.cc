// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <limits>
#include <ranges>
#include <utility>

#include "lib/workload/models/sharded_memory.h"

namespace roofbench::models {

using workload::CollectiveKind;

std::vector<at::Tensor> TensorsOf(const std::vector<SharedParameter>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const SharedParameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& tensor : tensors) gradients.push_back(tensor.grad());
  return gradients;
}

at::Tensor JoinedParts(ranks::Group& group, const at::Tensor& part, int64_t dimension) {
  at::Tensor parts = at::empty({group.size() * part.numel()}, part.options());
  group.AllGather(parts, part.contiguous().view({-1}));
  std::vector<at::Tensor> by_rank;
  for (const at::Tensor& flat : parts.split(part.numel())) by_rank.push_back(flat.view(part.sizes()));
  return at::cat(by_rank, dimension);
}

void Traffic::Restart(bool exchanges) {
  exchanges_ = exchanges;
  done_.clear();
}

void Traffic::Note(Kind kind, bool overlaps, int64_t elements, const at::Tensor& like) {
  if (exchanges_) done_.push_back({kind, overlaps, elements, like.options().requires_grad(false)});
}

Traffic::Work Traffic::Begin(ranks::Group& group, Kind kind, bool overlaps, at::Tensor& whole, at::Tensor& part) {
  if (kind == Kind::kAllGather) return group.StartAllGather(whole, part);
  const bool sums_all = kind == Kind::kAllReduce;
  if (overlaps) return sums_all ? group.StartAllReduce(whole) : group.StartReduceScatter(part, whole);
  if (sums_all) {
    group.AllReduce(whole);
  } else {
    group.ReduceScatterInput(part, whole);
  }
  return nullptr;
}

Traffic::Work Traffic::Do(Kind kind, bool overlaps, at::Tensor& whole, at::Tensor& part) {
  Note(kind, overlaps, whole.numel(), whole);
  if (exchanges_) return Begin(group_, kind, overlaps, whole, part);
  if (kind == Kind::kAllGather) {
    for (at::Tensor& copy : whole.view({-1}).split(part.numel())) copy.copy_(part);
  } else if (kind == Kind::kReduceScatter) {
    part.copy_(group_.PartOf(whole));
  }
  return nullptr;
}

std::function<void()> Traffic::Repetition() const {
  struct Arrays {
    Exchange exchange;
    at::Tensor whole, part;
  };
  std::vector<Arrays> all;
  for (const Exchange& exchange : done_) {
    at::Tensor whole = at::zeros({exchange.elements}, exchange.placement);
    at::Tensor part = at::zeros({exchange.elements / group_.size()}, exchange.placement);
    all.push_back({exchange, std::move(whole), std::move(part)});
  }
  return [&group = group_, all]() mutable {
    std::vector<Work> begun;
    for (auto& [exchange, whole, part] : all) {
      begun.push_back(Begin(group, exchange.kind, exchange.overlaps, whole, part));
    }
    for (const Work& work : begun) {
      if (work != nullptr) work->Wait();
    }
  };
}

double Traffic::SentBytes() const {
  if (group_.backend() == "nccl") return std::numeric_limits<double>::quiet_NaN();  // it chooses its algorithms itself
  double bytes = 0;
  for (const Exchange& exchange : done_) {
    const auto array_bytes =
        static_cast<double>(exchange.elements) * static_cast<double>(exchange.placement.dtype().itemsize());
    bytes += workload::Collective{exchange.kind, static_cast<double>(group_.size()), array_bytes}.GlooBytes();
  }
  return bytes;
}

void Parallel::ForgetGradients() {
  for (const at::Tensor& owned : Owned()) owned.mutable_grad().reset();
}

namespace {

// The elements of all tensors after each other, and zeros up to a multiple of `parts`.
at::Tensor Flat(const std::vector<at::Tensor>& tensors, int64_t parts = 1) {
  std::vector<at::Tensor> flat;
  int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) {
    flat.push_back(tensor.detach().reshape({-1}));
    elements += tensor.numel();
  }
  if (const int64_t odd = elements % parts; odd > 0) flat.push_back(at::zeros({parts - odd}, tensors[0].options()));
  return at::cat(flat);
}

// Views of `flat` with the sizes of these tensors.
std::vector<at::Tensor> Apart(const at::Tensor& flat, const std::vector<at::Tensor>& sizes_of) {
  std::vector<at::Tensor> views;
  int64_t begin = 0;
  for (const at::Tensor& tensor : sizes_of) {
    views.push_back(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
  return views;
}

// Moves the tensors into one array, whose size is a multiple of `parts`.
at::Tensor MovedTogether(const std::vector<at::Tensor>& tensors, int64_t parts) {
  at::Tensor whole = Flat(tensors, parts);
  const std::vector<at::Tensor> views = Apart(whole, tensors);
  for (std::size_t i = 0; i < views.size(); ++i) tensors[i].set_data(views[i]);
  return whole;
}

// Gives `owned`, a rank's part of these parameters, its part of the mean of their gradients, which are released.
void ScatterGradients(Traffic& traffic, const std::vector<at::Tensor>& parameters, const at::Tensor& owned) {
  at::Tensor gradients = Flat(GradientsOf(parameters), traffic.group().size());
  for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
  at::Tensor mine = at::empty_like(owned);
  traffic.ReduceScatter(mine, gradients);
  owned.mutable_grad() = mine.div_(traffic.group().size());
}

// Calls `call` each time that backward has completed the gradient of a leaf.
void AfterGradient(const at::Tensor& leaf, std::function<void()> call) {
  struct Hook final : torch::autograd::PostAccumulateGradHook {
    explicit Hook(std::function<void()> to_call) : called(std::move(to_call)) {}
    void operator()(const at::Tensor& /*leaf*/) override { called(); }
    const std::function<void()> called;
  };
  torch::autograd::impl::set_post_acc_grad_hooks(leaf, std::make_unique<Hook>(std::move(call)));
}

// Every rank has the whole model.
class Replicated : public Parallel {
 public:
  using Parallel::Parallel;
  void Share(std::vector<SharedParameter> parameters) override { owned_ = TensorsOf(parameters); }
  const std::vector<at::Tensor>& Owned() const override { return owned_; }
  std::vector<at::Tensor> Whole(const std::vector<at::Tensor>& owned) override { return owned; }

 private:
  std::vector<at::Tensor> owned_;
};

// Parameters whose gradients are exchanged together.
struct Bucket {
  std::vector<at::Tensor> parameters = {};
  std::size_t ready = 0;     // gradients
  at::Tensor gradient = {};  // of all of them
  std::unique_ptr<ranks::Work> work = nullptr;

  // In the array of all, whose elements are a multiple of `parts`; a single gradient that is one already is not copied.
  void Join(int64_t parts = 1) {
    const std::vector<at::Tensor> gradients = GradientsOf(parameters);
    const at::Tensor& first = gradients.front();
    const bool is_whole = gradients.size() == 1 && first.numel() % parts == 0;
    gradient = is_whole ? first.detach().contiguous().view({-1}) : Flat(gradients, parts);
  }
  void Wait() {
    if (work != nullptr) work->Wait();
    work.reset();
    ready = 0;
  }
};

// From the last parameter to the first. A bucket is full with so many bytes, and has one parameter at least.
std::vector<Bucket> InBuckets(const std::vector<SharedParameter>& parameters, int64_t bucket_bytes) {
  std::vector<double> bytes;
  for (const SharedParameter& parameter : parameters | std::views::reverse) {
    bytes.push_back(static_cast<double>(parameter.tensor.nbytes()));
  }
  const std::vector<std::size_t> bucket_of = workload::BucketsOf(bytes, static_cast<double>(bucket_bytes));
  std::vector<Bucket> buckets(bucket_of.back() + 1);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    buckets[bucket_of[i]].parameters.push_back(parameters[parameters.size() - 1 - i].tensor);
  }
  return buckets;
}

// Calls `begin` each time that backward has completed the last gradient of one of these, which must not move.
void WhenComplete(std::vector<Bucket>& buckets, const std::function<void(Bucket&)>& begin) {
  for (Bucket& bucket : buckets) {
    for (const at::Tensor& parameter : bucket.parameters) {
      AfterGradient(parameter, [&bucket, begin] {
        const at::NoGradGuard no_grad;
        if (++bucket.ready == bucket.parameters.size()) begin(bucket);
      });
    }
  }
}

// Gradients are averaged bucket by bucket.
class Bucketed final : public Replicated {
 public:
  Bucketed(ranks::Group& group, int64_t bucket_bytes, bool overlaps)
      : Replicated(group), bucket_bytes_(bucket_bytes), overlaps_(overlaps) {}

  void Share(std::vector<SharedParameter> parameters) override {
    buckets_ = InBuckets(parameters, bucket_bytes_);
    if (overlaps_) WhenComplete(buckets_, [this](Bucket& bucket) { Begin(bucket); });
    Replicated::Share(std::move(parameters));
  }

  void AfterBackward() override {
    const at::NoGradGuard no_grad;
    for (Bucket& bucket : buckets_) {
      if (!overlaps_) Begin(bucket);
      bucket.Wait();
      bucket.gradient.div_(size());
      bucket.gradient.reset();
    }
  }

 private:
  void Begin(Bucket& bucket) {
    bucket.Join();
    const std::vector<at::Tensor> views = Apart(bucket.gradient, bucket.parameters);
    for (std::size_t i = 0; i < views.size(); ++i) bucket.parameters[i].mutable_grad() = views[i];
    if (overlaps_) {
      bucket.work = traffic().StartAllReduce(bucket.gradient);
    } else {
      traffic().AllReduce(bucket.gradient);
    }
  }

  const int64_t bucket_bytes_;
  const bool overlaps_;
  std::vector<Bucket> buckets_;
};

class ByTorch final : public Replicated {
 public:
  using Replicated::Replicated;
  void Share(std::vector<SharedParameter> parameters) override {
    Replicated::Share(std::move(parameters));
    reducer_ = traffic().group().MakeReducer(Owned());
  }
  void BeforeForward() override {
    if (Exchanges()) reducer_->BeforeForward();
  }
  void BeforeBackward() override {
    if (Exchanges()) reducer_->BeforeBackward();
  }
  void AfterBackward() override {
    if (!Exchanges()) return;
    for (const int64_t elements : reducer_->BucketElements()) {
      traffic().Note(CollectiveKind::kAllReduce, /*overlaps=*/true, elements, Owned().front());
    }
  }

 private:
  bool Exchanges() { return reducer_ != nullptr && traffic().exchanges(); }
  std::unique_ptr<ranks::Reducer> reducer_;
};

// The parameters of a bucket lie after each other in one array, of which each rank updates its part.
class Zero1 final : public Parallel {
 public:
  Zero1(ranks::Group& group, int64_t bucket_bytes) : Parallel(group), bucket_bytes_(bucket_bytes) {}
  void Share(std::vector<SharedParameter> parameters) override {
    buckets_ = InBuckets(parameters, bucket_bytes_);
    for (const Bucket& bucket : buckets_) {
      wholes_.push_back(MovedTogether(bucket.parameters, size()));
      owned_.push_back(traffic().group().PartOf(wholes_.back()).detach().requires_grad_(true));
    }
    WhenComplete(buckets_, [this](Bucket& bucket) {
      bucket.Join(size());
      for (const at::Tensor& parameter : bucket.parameters) parameter.mutable_grad().reset();
      at::Tensor mine = traffic().group().PartOf(bucket.gradient);
      bucket.work = traffic().StartReduceScatter(mine, bucket.gradient);
    });
  }
  const std::vector<at::Tensor>& Owned() const override { return owned_; }
  void AfterBackward() override {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      buckets_[i].Wait();
      owned_[i].mutable_grad() = traffic().group().PartOf(buckets_[i].gradient).div(size());
      buckets_[i].gradient.reset();
    }
  }
  void AfterUpdate() override {
    std::vector<std::unique_ptr<ranks::Work>> begun;
    for (std::size_t i = 0; i < wholes_.size(); ++i) {
      begun.push_back(traffic().StartAllGather(wholes_[i], owned_[i].detach()));
    }
    for (const auto& work : begun) {
      if (work != nullptr) work->Wait();
    }
  }
  std::vector<at::Tensor> Whole(const std::vector<at::Tensor>& owned) override {
    std::vector<at::Tensor> all;
    for (std::size_t i = 0; i < wholes_.size(); ++i) {
      at::Tensor whole = at::empty_like(wholes_[i]);
      traffic().group().AllGather(whole, owned[i].detach());
      for (const at::Tensor& tensor : Apart(whole, buckets_[i].parameters)) all.push_back(tensor);
    }
    std::ranges::reverse(all);
    return all;
  }

 private:
  const int64_t bucket_bytes_;
  std::vector<Bucket> buckets_;
  std::vector<at::Tensor> wholes_;
  std::vector<at::Tensor> owned_;
};

// The parameters of a unit lie after each other in one array, which is there while the unit computes, and gathered
// while the one before it does. Its memory is released by way of its storage: what autograd keeps of it are views.
class Fsdp final : public Parallel {
 public:
  using Parallel::Parallel;
  void Share(std::vector<SharedParameter> parameters) override {
    for (const SharedParameter& parameter : parameters) {
      if (parameter.unit >= units_.size()) units_.resize(parameter.unit + 1);
      units_[parameter.unit].parameters.push_back(parameter.tensor);
    }
    for (std::size_t i = 0; i < units_.size(); ++i) {
      Unit& unit = units_[i];
      unit.whole = MovedTogether(unit.parameters, size());
      unit.bytes = unit.whole.nbytes();
      for (const at::Tensor& parameter : unit.parameters) AfterGradient(parameter, [this, i] { Complete(units_[i]); });
      owned_.push_back(traffic().group().PartOf(unit.whole).clone().requires_grad_(true));
      unit.owned = owned_.back();
      Release(unit);
    }
  }
  const std::vector<at::Tensor>& Owned() const override { return owned_; }
  void BeforeUnit(std::size_t unit) override {
    Gather(units_[unit]);
    if (unit + 1 < units_.size()) BeginGather(units_[unit + 1]);
  }
  void AfterUnit(std::size_t unit, const at::Tensor& y) override {
    Release(units_[unit]);
    if (!y.requires_grad()) return;
    y.register_hook([this, unit](const at::Tensor&) {
      Gather(units_[unit]);
      if (unit > 0) BeginGather(units_[unit - 1]);
    });
  }
  void BeforeBackward() override { BeginGather(units_.back()); }
  std::vector<at::Tensor> Whole(const std::vector<at::Tensor>& owned) override {
    std::vector<at::Tensor> all;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      at::Tensor whole = at::empty({units_[i].whole.numel()}, owned[i].options().requires_grad(false));
      traffic().group().AllGather(whole, owned[i].detach());
      for (const at::Tensor& tensor : Apart(whole, units_[i].parameters)) all.push_back(tensor);
    }
    return all;
  }

 private:
  struct Unit {
    std::vector<at::Tensor> parameters = {};
    at::Tensor whole = {};
    std::size_t bytes = 0;
    at::Tensor owned = {};
    bool is_gathered = false;                     // or begun to be
    std::unique_ptr<ranks::Work> work = nullptr;  // nullptr: it has ended
    std::size_t complete = 0;                     // gradients
  };

  // Its contents need not be kept.
  static void Resize(const Unit& unit, std::size_t bytes) {
    c10::StorageImpl& storage = *unit.whole.storage().unsafeGetStorageImpl();
    storage.set_data_ptr_noswap(storage.allocator()->allocate(bytes));
    storage.set_nbytes(bytes);
  }
  void BeginGather(Unit& unit) {
    if (unit.is_gathered) return;
    const at::NoGradGuard no_grad;
    Resize(unit, unit.bytes);
    unit.work = traffic().StartAllGather(unit.whole, unit.owned.detach());
    unit.is_gathered = true;
  }
  void Gather(Unit& unit) {
    BeginGather(unit);
    if (unit.work != nullptr) unit.work->Wait();
    unit.work.reset();
  }
  // One rank's part is the whole, from which copies of the case are made.
  void Release(Unit& unit) const {
    if (size() > 1) Resize(unit, 0);
    unit.is_gathered = false;
  }
  void Complete(Unit& unit) {
    if (++unit.complete < unit.parameters.size()) return;
    const at::NoGradGuard no_grad;
    unit.complete = 0;
    Release(unit);
    ScatterGradients(traffic(), unit.parameters, unit.owned);
  }

  std::vector<Unit> units_;
  std::vector<at::Tensor> owned_;
};

// Products by columns, then by rows: the first give each rank its features, the second its term of a sum. Parameters
// that are not divided have the same gradients on all ranks.
class TensorParallel final : public Parallel {
 public:
  using Parallel::Parallel;
  void Share(std::vector<SharedParameter> parameters) override {
    for (SharedParameter& parameter : parameters) {
      owned_.push_back(parameter.tensor);
      splits_.push_back(parameter.split);
      if (parameter.split == SharedParameter::kWhole || size() == 1) continue;
      const int64_t part = parameter.tensor.size(parameter.split) / size();
      parameter.tensor.set_data(
          parameter.tensor.detach().narrow(parameter.split, rank() * part, part).clone(at::MemoryFormat::Contiguous));
    }
  }
  const std::vector<at::Tensor>& Owned() const override { return owned_; }
  at::Tensor ToShards(const at::Tensor& x) override {
    if (!x.requires_grad()) return x;
    const at::Tensor shared = x.view_as(x);
    shared.register_hook([this](const at::Tensor& gradient) {
      const at::NoGradGuard no_grad;
      at::Tensor sum = gradient.clone(at::MemoryFormat::Contiguous);
      traffic().AllReduce(sum);
      return sum;
    });
    return shared;
  }
  // In place: backward needs no result of a product, and the gradient of each term is that of the sum.
  at::Tensor FromShards(const at::Tensor& term) override {
    at::Tensor sum = term.detach();
    traffic().AllReduce(sum);
    return term;
  }
  std::vector<at::Tensor> Whole(const std::vector<at::Tensor>& owned) override {
    std::vector<at::Tensor> all;
    for (std::size_t i = 0; i < owned.size(); ++i) {
      const at::Tensor part = owned[i].detach();
      const bool is_whole = splits_[i] == SharedParameter::kWhole;
      all.push_back(is_whole ? part.contiguous() : JoinedParts(traffic().group(), part, splits_[i]));
    }
    return all;
  }

 private:
  std::vector<at::Tensor> owned_;
  std::vector<int64_t> splits_;
};

}  // namespace

std::unique_ptr<Parallel> Parallel::Make(ParallelKind kind, ranks::Group& group, int64_t bucket_bytes) {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  switch (kind) {
    case ParallelKind::kNaive:
      return std::make_unique<Bucketed>(group, 0, /*overlaps=*/false);
    case ParallelKind::kFlat:
      return std::make_unique<Bucketed>(group, kAll, /*overlaps=*/false);
    case ParallelKind::kOverlap:
      return std::make_unique<Bucketed>(group, 0, /*overlaps=*/true);
    case ParallelKind::kBucketed:
      return std::make_unique<Bucketed>(group, bucket_bytes, /*overlaps=*/true);
    case ParallelKind::kTorch:
      return std::make_unique<ByTorch>(group);
    case ParallelKind::kZero1:
      return std::make_unique<Zero1>(group, bucket_bytes);
    case ParallelKind::kFsdp:
      return std::make_unique<Fsdp>(group);
    case ParallelKind::kTensor:
      return std::make_unique<TensorParallel>(group);
  }
  return nullptr;
}

}  // namespace roofbench::models
