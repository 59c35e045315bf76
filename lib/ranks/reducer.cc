// SPDX-License-Identifier: Apache-2.0
#include "lib/ranks/reducer.h"

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace roofbench::ranks {
namespace {

// Keeps what c10d::Reducer begins, until no thread of Gloo holds its buckets, which the reducer replaces once.
class ReducerGroup final : public c10d::ProcessGroup {
 public:
  using ProcessGroup::ProcessGroup;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return begun_.emplace_back(ProcessGroup::allreduce(tensors, options));
  }
  void AwaitRelease() {
    for (c10::intrusive_ptr<c10d::Work>& work : begun_) WaitAndRelease(std::move(work));
    begun_.clear();
  }

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> begun_;
};

class TorchReducer final : public Reducer {
 public:
  TorchReducer(const std::vector<at::Tensor>& parameters, c10::intrusive_ptr<ReducerGroup> group)
      : group_(std::move(group)),
        reducer_(std::make_unique<c10d::Reducer>(
            parameters, BucketsOf(parameters), group_,
            /*expect_sparse_gradients=*/std::vector<bool>(parameters.size(), false), c10d::kDefaultBucketBytesCap,
            /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/false,
            /*param_names=*/std::unordered_map<std::size_t, std::string>(), c10d::kDefaultFirstBucketBytes,
            /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
            /*bucket_bytes_cap_list=*/std::vector<int64_t>())) {}
  void BeforeForward() override {
    group_->AwaitRelease();
    reducer_->prepare_for_forward();
    reducer_->rebuild_buckets();  // once, in the order in which the first backward pass came to the gradients
  }
  void BeforeBackward() override { reducer_->prepare_for_backward({}); }
  std::vector<int64_t> BucketElements() const override {
    std::vector<int64_t> elements;
    for (const c10d::GradBucket& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/false)) {
      elements.push_back(bucket.getBuffer().numel());
    }
    return elements;
  }

 private:
  static std::vector<std::vector<std::size_t>> BucketsOf(const std::vector<at::Tensor>& parameters) {
    auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
        parameters, {c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap}));
    std::ranges::reverse(buckets);  // gradients come from the last layer to the first
    return buckets;
  }

  const c10::intrusive_ptr<ReducerGroup> group_;
  const std::unique_ptr<c10d::Reducer> reducer_;
};

}  // namespace

void WaitAndRelease(c10::intrusive_ptr<c10d::Work> work) {
  work->wait();
  while (work.use_count() > 1) std::this_thread::yield();
}

std::unique_ptr<Reducer> ReducerOver(c10::intrusive_ptr<c10d::Backend> backend, c10d::ProcessGroup::BackendType type,
                                     const std::vector<at::Tensor>& parameters) {
  auto group = c10::make_intrusive<ReducerGroup>(backend->getRank(), backend->getSize());
  group->setBackend(parameters.front().device().type(), type, std::move(backend));
  return std::make_unique<TorchReducer>(parameters, std::move(group));
}

}  // namespace roofbench::ranks
