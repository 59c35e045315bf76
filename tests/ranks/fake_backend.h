// SPDX-License-Identifier: Apache-2.0
// Backends of c10d that stand in for a GPU's, as c10d::FakeProcessGroup does, whose header needs Python's.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/ranks/group.h"

namespace roofbench::ranks {

class FakeBackend : public c10d::Backend {
 public:
  using C10dWork = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using Backend::Backend;
  const std::string getBackendName() const override { return "fake"; }  // NOLINT(readability-const-return-type)
  void startCoalescing() override {}
};

// Exchanges nothing and keeps what it was asked for: "broadcast 6 from 1, on the stream".
class RecordingBackend : public FakeBackend {
 public:
  using FakeBackend::FakeBackend;

  std::vector<std::string> asked;
  bool fails = false;
  bool is_aborted = false;

  C10dWork allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return Ask(absl::StrCat("allreduce ", tensors[0].numel()), options.asyncOp);
  }
  C10dWork _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    return Ask(absl::StrCat("allgather ", input.numel(), " to ", output.numel()), options.asyncOp);
  }
  C10dWork _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                const c10d::ReduceScatterOptions& options) override {
    return Ask(absl::StrCat("reduce_scatter ", input.numel(), " to ", output.numel()), options.asyncOp);
  }
  C10dWork broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return Ask(absl::StrCat("broadcast ", tensors[0].numel(), " from ", options.rootRank), options.asyncOp);
  }
  C10dWork alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& out, std::vector<int64_t>& in,
                         const c10d::AllToAllOptions& options) override {
    return Ask(absl::StrCat("alltoall ", input.numel(), " to ", output.numel(), out.empty() && in.empty() ? "" : "!"),
               options.asyncOp);
  }
  C10dWork send(Tensors& tensors, int to, int /*tag*/) override {
    return Ask(absl::StrCat("send ", tensors[0].numel(), " to ", to), true);
  }
  C10dWork recv(Tensors& tensors, int from, int /*tag*/) override {
    return Ask(absl::StrCat("recv ", tensors[0].numel(), " from ", from), true);
  }
  void startCoalescing() override { asked.emplace_back("("); }
  C10dWork endCoalescing() override { return Ask(")", true); }
  void abort() override { is_aborted = true; }

 private:
  struct Ended final : c10d::Work {
    bool wait(std::chrono::milliseconds) override { return true; }
  };

  // As NCCL: no work for what is on the stream.
  C10dWork Ask(const std::string& what, bool is_async) {
    if (fails) C10_THROW_ERROR(DistBackendError, "the link is down");
    asked.push_back(is_async ? what : what + ", on the stream");
    return is_async ? c10::make_intrusive<Ended>() : nullptr;
  }
};

// While it lives, the calling thread does not hold its turn.
struct WithoutTurn {
  explicit WithoutTurn(std::unique_lock<std::mutex>& of) : turn(of) { turn.unlock(); }
  ~WithoutTurn() { turn.lock(); }
  std::unique_lock<std::mutex>& turn;
};

// Exchanges tensors of any device in copies on the host. `turn`, which the calling thread holds, is not held while it
// waits for other ranks. Unless asked for on the stream, a result is in memory only after the wait.
class ThroughHost : public RecordingBackend {
 public:
  static constexpr char kWaited[] = "waited";  // among what was asked

  ThroughHost(std::shared_ptr<Group> host, std::unique_lock<std::mutex>& turn)
      : RecordingBackend(host->rank(), host->size()), host_(std::move(host)), turn_(turn) {}

  C10dWork allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return Exchange(RecordingBackend::allreduce(tensors, options), tensors[0], tensors[0],
                    [&](at::Tensor& out, const at::Tensor&) { host_->AllReduce(out); });
  }
  C10dWork _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    return Exchange(RecordingBackend::_allgather_base(output, input, options), output, input,
                    [&](at::Tensor& out, const at::Tensor& in) { host_->AllGather(out, in); });
  }
  C10dWork _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                const c10d::ReduceScatterOptions& options) override {
    return Exchange(RecordingBackend::_reduce_scatter_base(output, input, options), output, input,
                    [&](at::Tensor& out, const at::Tensor& in) { host_->ReduceScatter(out, in); });
  }
  C10dWork broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const auto root = static_cast<int>(options.rootRank);
    return Exchange(RecordingBackend::broadcast(tensors, options), tensors[0], tensors[0],
                    [&](at::Tensor& out, const at::Tensor&) { host_->Broadcast(out, root); });
  }
  C10dWork alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& out_parts,
                         std::vector<int64_t>& in_parts, const c10d::AllToAllOptions& options) override {
    return Exchange(RecordingBackend::alltoall_base(output, input, out_parts, in_parts, options), output, input,
                    [&](at::Tensor& out, const at::Tensor& in) { host_->AllToAll(out, in); });
  }
  C10dWork send(Tensors& tensors, int to, int) override {
    sent_ = {tensors[0], to};
    return nullptr;
  }
  C10dWork recv(Tensors& tensors, int from, int) override {
    received_ = {tensors[0], from};
    return nullptr;
  }
  C10dWork endCoalescing() override {
    return Exchange(nullptr, received_.first, sent_.first, [&](at::Tensor& out, const at::Tensor& in) {
      host_->SendReceive(in, sent_.second, out, received_.second);
    });
  }

 private:
  // `work`: nullptr for what is on the stream.
  template <typename Call>
  C10dWork Exchange(const C10dWork& work, at::Tensor& output, const at::Tensor& input, Call call) {
    const at::Tensor in = input.cpu();
    at::Tensor out = output.cpu();
    {
      const WithoutTurn others(turn_);
      call(out, in);
    }
    auto done = c10::make_intrusive<Done>(output, out, work != nullptr ? &asked : nullptr);
    if (work != nullptr) return done;
    done->wait(std::chrono::milliseconds(0));
    return nullptr;
  }

  struct Done final : c10d::Work {
    Done(at::Tensor to, at::Tensor from, std::vector<std::string>* in)
        : result(std::move(to)), host(std::move(from)), noted(in) {}
    bool wait(std::chrono::milliseconds) override {
      if (!host.defined()) return true;
      result.zero_();  // takes time on the device
      result.copy_(std::exchange(host, at::Tensor()));
      if (noted != nullptr) noted->emplace_back(kWaited);
      return true;
    }
    // For c10d::Reducer, which takes the result from it.
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
      wait(std::chrono::milliseconds(0));
      auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
      future->markCompleted(std::vector<at::Tensor>{result}, std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>>());
      return future;
    }
    at::Tensor result, host;
    std::vector<std::string>* const noted;
  };

  const std::shared_ptr<Group> host_;
  std::unique_lock<std::mutex>& turn_;
  std::pair<at::Tensor, int> sent_, received_;
};

}  // namespace roofbench::ranks
