// SPDX-License-Identifier: Apache-2.0
#include "lib/ranks/device_group.h"

#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/ranks/guarded.h"
#include "lib/ranks/reducer.h"

namespace roofbench::ranks {
namespace {

using C10dWork = c10::intrusive_ptr<c10d::Work>;

constexpr int kDeviceTag = 0;

// NCCL returns no work for what it has put on the current stream. Others let that stream wait for their own.
void WaitOnStream(const C10dWork& work) {
  if (work != nullptr) work->wait();
}

class BegunOnDevice final : public Work {
 public:
  BegunOnDevice(const char* name, int rank, C10dWork work) : name_(name), rank_(rank), work_(std::move(work)) {}
  void Wait() override {
    Guarded(name_, rank_, [&] { WaitOnStream(work_); });
    work_.reset();
  }

 private:
  const char* const name_;
  const int rank_;
  C10dWork work_;
};

class DeviceGroup final : public Group {
 public:
  DeviceGroup(std::unique_ptr<Group> host, c10::intrusive_ptr<c10d::Backend> backend, at::Device device)
      : host_(std::move(host)), backend_(std::move(backend)), token_(at::zeros({1}, device)) {}
  // Another rank may be gone: a shutdown would wait for it.
  ~DeviceGroup() override {
    try {
      backend_->abort();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the device is lost, and says so to its user
    }
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string backend() const override { return backend_->getBackendName(); }

  void AllReduce(at::Tensor& tensor) override {
    if (tensor.is_cpu()) return host_->AllReduce(tensor);
    std::vector<at::Tensor> tensors = {tensor};
    Run("all-reduce", [&] { return backend_->allreduce(tensors, OnStream<c10d::AllreduceOptions>()); });
  }
  std::unique_ptr<Work> StartAllReduce(at::Tensor& tensor) override {
    if (tensor.is_cpu()) return host_->StartAllReduce(tensor);
    std::vector<at::Tensor> tensors = {tensor};
    return Begin("all-reduce", [&] { return backend_->allreduce(tensors, c10d::AllreduceOptions()); });
  }
  void AllGather(at::Tensor& output, const at::Tensor& input) override {
    if (input.is_cpu()) return host_->AllGather(output, input);
    at::Tensor in = input;
    Run("all-gather", [&] { return backend_->_allgather_base(output, in, OnStream<c10d::AllgatherOptions>()); });
  }
  std::unique_ptr<Work> StartAllGather(at::Tensor& output, const at::Tensor& input) override {
    if (input.is_cpu()) return host_->StartAllGather(output, input);
    at::Tensor in = input;
    return Begin("all-gather", [&] { return backend_->_allgather_base(output, in, c10d::AllgatherOptions()); });
  }
  void ReduceScatter(at::Tensor& output, const at::Tensor& input) override {
    if (input.is_cpu()) return host_->ReduceScatter(output, input);
    at::Tensor in = input;
    Run("reduce-scatter",
        [&] { return backend_->_reduce_scatter_base(output, in, OnStream<c10d::ReduceScatterOptions>()); });
  }
  void ReduceScatterInput(at::Tensor& output, at::Tensor& input) override {
    if (input.is_cpu()) return host_->ReduceScatterInput(output, input);
    ReduceScatter(output, input);
  }
  std::unique_ptr<Work> StartReduceScatter(at::Tensor& output, at::Tensor& input) override {
    if (input.is_cpu()) return host_->StartReduceScatter(output, input);
    return Begin("reduce-scatter",
                 [&] { return backend_->_reduce_scatter_base(output, input, c10d::ReduceScatterOptions()); });
  }
  void Broadcast(at::Tensor& tensor, int root) override {
    if (tensor.is_cpu()) return host_->Broadcast(tensor, root);
    std::vector<at::Tensor> tensors = {tensor};
    auto options = OnStream<c10d::BroadcastOptions>();
    options.rootRank = root;
    Run("broadcast", [&] { return backend_->broadcast(tensors, options); });
  }
  void AllToAll(at::Tensor& output, const at::Tensor& input) override {
    if (input.is_cpu()) return host_->AllToAll(output, input);
    at::Tensor in = input;
    std::vector<int64_t> equal_parts;
    Run("all-to-all", [&] {
      return backend_->alltoall_base(output, in, equal_parts, equal_parts, OnStream<c10d::AllToAllOptions>());
    });
  }
  void Send(const at::Tensor& tensor, int to) override {
    if (tensor.is_cpu()) return host_->Send(tensor, to);
    std::vector<at::Tensor> tensors = {tensor};
    Run("send", [&] { return backend_->send(tensors, to, kDeviceTag); });
  }
  void Receive(at::Tensor& tensor, int from) override {
    if (tensor.is_cpu()) return host_->Receive(tensor, from);
    std::vector<at::Tensor> tensors = {tensor};
    Run("receive", [&] { return backend_->recv(tensors, from, kDeviceTag); });
  }
  // As one operation: after each other on one stream, both ranks would wait for the other to begin.
  void SendReceive(const at::Tensor& sent, int to, at::Tensor& received, int from) override {
    if (sent.is_cpu()) return host_->SendReceive(sent, to, received, from);
    std::vector<at::Tensor> out = {sent};
    std::vector<at::Tensor> in = {received};
    Run("send and receive", [&] {
      backend_->startCoalescing();
      backend_->recv(in, from, kDeviceTag);
      backend_->send(out, to, kDeviceTag);
      return backend_->endCoalescing();
    });
  }
  void Barrier() override { host_->Barrier(); }
  std::unique_ptr<Reducer> MakeReducer(const std::vector<at::Tensor>& parameters) override {
    const bool is_nccl = backend() == "nccl";
    return ReducerOver(backend_,
                       is_nccl ? c10d::ProcessGroup::BackendType::NCCL : c10d::ProcessGroup::BackendType::CUSTOM,
                       parameters);
  }
  void Meet() override { AllReduce(token_); }

 private:
  // For a call that the caller waits for: on the current stream, as torch.distributed does it, without another stream's
  // events.
  template <typename Options>
  static Options OnStream() {
    Options options;
    options.asyncOp = false;
    return options;
  }
  template <typename Start>
  void Run(const char* name, Start start) {
    Guarded(name, rank(), [&] { WaitOnStream(start()); });
  }
  template <typename Start>
  std::unique_ptr<Work> Begin(const char* name, Start start) {
    return std::make_unique<BegunOnDevice>(name, rank(), Guarded(name, rank(), start));
  }

  const std::unique_ptr<Group> host_;
  const c10::intrusive_ptr<c10d::Backend> backend_;
  at::Tensor token_;
};

// OK if each rank has a GPU of its own, or none has one.
absl::Status CheckDevices(const std::vector<std::optional<std::string>>& ids) {
  std::map<std::string, std::size_t> first;
  for (std::size_t rank = 0; rank < ids.size(); ++rank) {
    if (ids[rank]->empty() != ids[0]->empty()) {
      return absl::FailedPreconditionError(absl::StrCat("rank ", ids[0]->empty() ? 0 : rank,
                                                        " computes on processors and rank ", ids[0]->empty() ? rank : 0,
                                                        " on a GPU; --device chooses"));
    }
    const auto [found, is_new] = first.emplace(*ids[rank], rank);
    if (is_new || ids[rank]->empty()) continue;
    return absl::UnimplementedError(absl::StrCat("ranks ", found->second, " and ", rank, " have the same GPU (",
                                                 *ids[rank], "), and NCCL needs one for each rank"));
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Group> OverBackend(std::unique_ptr<Group> host, c10::intrusive_ptr<c10d::Backend> backend,
                                   at::Device device) {
  return std::make_unique<DeviceGroup>(std::move(host), std::move(backend), device);
}

absl::StatusOr<std::unique_ptr<Group>> WithDevice(std::unique_ptr<Group> host, const RankDevice& own, Board& board,
                                                  const std::string& name, std::chrono::milliseconds timeout,
                                                  const Board::GivesUp& gives_up) try {
  const auto ids = board.Exchange(absl::StrCat("devices/", name), own.id, timeout, gives_up);
  if (const std::string missing = MissingRanks(ids); !missing.empty()) {
    return absl::UnavailableError(absl::StrCat(missing, " did not name a device for the group ", name));
  }
  if (absl::Status status = CheckDevices(ids); !status.ok()) return status;
  if (own.id.empty()) return host;
  if (own.nccl == nullptr) {
    return absl::UnimplementedError(
        "the CUDA part has no NCCL, by which GPUs communicate: build it where nccl.h is, or name its folder: "
        "-DROOFBENCH_NCCL_INCLUDE=<folder>");
  }
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::PrefixStore>(
      absl::StrCat("nccl/", name), c10::intrusive_ptr<c10d::Store>::unsafe_reclaim_from_nonowning(&board.store()));
  try {
    c10::intrusive_ptr<c10d::Backend> backend = own.nccl->make(store, host->rank(), host->size(), own.device, timeout);
    return OverBackend(std::move(host), std::move(backend), own.device);
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("no group of ", board.size(), " ranks over NCCL: ", error.what()));
  }
} catch (const ContactLost& lost) {
  return absl::UnavailableError(lost.what());
}

}  // namespace roofbench::ranks
