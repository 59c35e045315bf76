// SPDX-License-Identifier: Apache-2.0
#include "lib/ranks/group.h"

#include <cstdlib>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/process.h"
#include "lib/ranks/guarded.h"
#include "lib/ranks/reducer.h"

#ifdef USE_C10D_GLOO
#include <ATen/ops/from_blob.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif

namespace roofbench::ranks {
namespace {

class Ended final : public Work {
 public:
  void Wait() override {}
};

class Alone final : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string backend() const override { return "none"; }

  void AllReduce(at::Tensor& /*tensor*/) override {}
  void AllGather(at::Tensor& output, const at::Tensor& input) override { Copy(output, input); }
  void ReduceScatter(at::Tensor& output, const at::Tensor& input) override { Copy(output, input); }
  void Broadcast(at::Tensor& /*tensor*/, int /*root*/) override {}
  void AllToAll(at::Tensor& output, const at::Tensor& input) override { Copy(output, input); }
  void Send(const at::Tensor& tensor, int /*to*/) override { sent_.push_back(tensor.clone()); }
  void Receive(at::Tensor& tensor, int /*from*/) override {
    if (sent_.empty()) throw ContactLost("a group of one rank receives only what it has sent");
    Copy(tensor, sent_.front());
    sent_.pop_front();
  }
  void SendReceive(const at::Tensor& sent, int /*to*/, at::Tensor& received, int /*from*/) override {
    Copy(received, sent);
  }
  void Barrier() override {}

 private:
  static void Copy(at::Tensor& to, const at::Tensor& from) { to.view({-1}).copy_(from.view({-1})); }

  std::deque<at::Tensor> sent_;
};

#ifdef USE_C10D_GLOO
constexpr int kTag = 0;

// Gloo's thread releases its reference to the tensors only after it has woken the waiter: an array that the caller
// frees would on some runs still be there in the next step, and count in its peak. Where the caller waits until the
// thread has ended its work or failed, the thread gets a tensor that does not own the memory.
at::Tensor Borrowed(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.options().requires_grad(false));
}

class Begun final : public Work {
 public:
  Begun(const char* name, int rank) : name_(name), rank_(rank) {}
  template <typename Start>
  void Add(Start start) {
    parts_.push_back(Guarded(name_, rank_, start));
  }
  // Once, when all have ended.
  void Then(std::function<void()> call) { then_ = std::move(call); }
  void Wait() override {
    for (c10::intrusive_ptr<c10d::Work>& part : parts_) {
      Guarded(name_, rank_, [&] { WaitAndRelease(std::move(part)); });
    }
    parts_.clear();
    if (const std::function<void()> then = std::exchange(then_, nullptr)) then();
  }

 private:
  const char* const name_;
  const int rank_;
  std::function<void()> then_;
  std::vector<c10::intrusive_ptr<c10d::Work>> parts_;
};

class Gloo final : public Group {
 public:
  explicit Gloo(c10::intrusive_ptr<c10d::ProcessGroupGloo> group) : group_(std::move(group)) {}

  int rank() const override { return group_->getRank(); }
  int size() const override { return group_->getSize(); }
  std::string backend() const override { return "gloo"; }

  void AllReduce(at::Tensor& tensor) override {
    Wait("all-reduce", [&] { return group_->allreduce(tensors_ = {Borrowed(tensor)}); });
  }
  std::unique_ptr<Work> StartAllReduce(at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors = {tensor};
    auto begun = std::make_unique<Begun>("all-reduce", rank());
    begun->Add([&] { return group_->allreduce(tensors); });
    return begun;
  }
  void AllGather(at::Tensor& output, const at::Tensor& input) override {
    at::Tensor in = Borrowed(input);
    at::Tensor out = Borrowed(output);
    Wait("all-gather", [&] { return group_->_allgather_base(out, in); });
  }
  // A broadcast of each part sends as many bytes, and needs no copy of the output, which c10d's all-gather makes.
  std::unique_ptr<Work> StartAllGather(at::Tensor& output, const at::Tensor& input) override {
    auto begun = std::make_unique<Begun>("all-gather", rank());
    const std::vector<at::Tensor> parts = output.view({-1}).chunk(size());
    at::Tensor(parts[static_cast<std::size_t>(rank())]).copy_(input.view({-1}));
    c10d::BroadcastOptions options;
    for (const at::Tensor& part : parts) {
      std::vector<at::Tensor> tensors = {part};
      begun->Add([&] { return group_->broadcast(tensors, options); });
      ++options.rootRank;
    }
    return begun;
  }
  void ReduceScatter(at::Tensor& output, const at::Tensor& input) override {
    at::Tensor in = input;
    Wait("reduce-scatter", [&] { return group_->_reduce_scatter_base(output, in); });
  }
  // c10d's own copies the input, and its thread may hold the copy on return.
  void ReduceScatterInput(at::Tensor& output, at::Tensor& input) override {
    AllReduce(input);
    output.view({-1}).copy_(PartOf(input));
  }
  std::unique_ptr<Work> StartReduceScatter(at::Tensor& output, at::Tensor& input) override {
    std::vector<at::Tensor> tensors = {input};
    auto begun = std::make_unique<Begun>("reduce-scatter", rank());
    begun->Add([&] { return group_->allreduce(tensors); });
    begun->Then([this, output, input] { output.view({-1}).copy_(PartOf(input)); });
    return begun;
  }
  void Broadcast(at::Tensor& tensor, int root) override {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    Wait("broadcast", [&] { return group_->broadcast(tensors_ = {Borrowed(tensor)}, options); });
  }
  void AllToAll(at::Tensor& output, const at::Tensor& input) override {
    at::Tensor in = Borrowed(input);
    at::Tensor out = Borrowed(output);
    std::vector<int64_t> equal_parts;
    Wait("all-to-all", [&] { return group_->alltoall_base(out, in, equal_parts, equal_parts); });
  }
  void Send(const at::Tensor& tensor, int to) override {
    Wait("send", [&] { return group_->send(tensors_ = {Borrowed(tensor)}, to, kTag); });
  }
  void Receive(at::Tensor& tensor, int from) override {
    Wait("receive", [&] { return group_->recv(tensors_ = {Borrowed(tensor)}, from, kTag); });
  }
  void SendReceive(const at::Tensor& sent, int to, at::Tensor& received, int from) override {
    std::vector<at::Tensor> out = {Borrowed(sent)};
    Wait("send and receive", [&] {
      const auto receiving = group_->recv(tensors_ = {Borrowed(received)}, from, kTag);
      auto sending = group_->send(out, to, kTag);
      receiving->wait();  // as a rule the later one, so that this thread sleeps once
      return sending;
    });
  }
  void Barrier() override {
    Wait("barrier", [&] { return group_->barrier(); });
  }

  std::unique_ptr<Reducer> MakeReducer(const std::vector<at::Tensor>& parameters) override {
    return ReducerOver(group_, c10d::ProcessGroup::BackendType::GLOO, parameters);
  }

 private:
  template <typename Start>
  void Wait(const char* name, Start start) {
    Guarded(name, rank(), [&] { start()->wait(); });
    tensors_.clear();
  }

  const c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::vector<at::Tensor> tensors_;  // c10d takes a reference to a list
};

std::shared_ptr<gloo::transport::Device> DeviceOf(bool local) {
  if (local) return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME"); interface != nullptr) {
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  }
  return c10d::ProcessGroupGloo::createDefaultDevice();
}
#endif

}  // namespace

std::unique_ptr<Work> Group::StartAllReduce(at::Tensor& tensor) {
  AllReduce(tensor);
  return std::make_unique<Ended>();
}

std::unique_ptr<Work> Group::StartAllGather(at::Tensor& output, const at::Tensor& input) {
  AllGather(output, input);
  return std::make_unique<Ended>();
}

std::unique_ptr<Work> Group::StartReduceScatter(at::Tensor& output, at::Tensor& input) {
  ReduceScatterInput(output, input);
  return std::make_unique<Ended>();
}

at::Tensor Group::PartOf(const at::Tensor& whole) const {
  const int64_t part = whole.numel() / size();
  return whole.view({-1}).narrow(0, rank() * part, part);
}

std::unique_ptr<Reducer> Group::MakeReducer(const std::vector<at::Tensor>& /*parameters*/) { return nullptr; }

std::unique_ptr<Group> MakeAlone() { return std::make_unique<Alone>(); }

#ifdef USE_C10D_GLOO
absl::Status GlooIsBuilt() { return absl::OkStatus(); }

absl::StatusOr<std::unique_ptr<Group>> MakeGloo(Board& board, const std::string& name,
                                                std::chrono::milliseconds timeout, bool local,
                                                const Board::GivesUp& gives_up) try {
  SurviveBrokenConnections();  // a rank that ends breaks those of the others
  // Gloo itself does not say which rank it waits for.
  const std::string missing = MissingRanks(board.Exchange(absl::StrCat("meet/", name), "", timeout, gives_up));
  if (!missing.empty()) return absl::UnavailableError(absl::StrCat(missing, " did not come to the group ", name));
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(DeviceOf(local));
  auto store = c10::make_intrusive<c10d::PrefixStore>(
      name, c10::intrusive_ptr<c10d::Store>::unsafe_reclaim_from_nonowning(&board.store()));
  return std::make_unique<Gloo>(
      c10::make_intrusive<c10d::ProcessGroupGloo>(store, board.rank(), board.size(), std::move(options)));
} catch (const std::exception& error) {
  return absl::UnavailableError(absl::StrCat("no group of ", board.size(), " ranks over Gloo: ", error.what()));
}
#else
absl::Status GlooIsBuilt() {
  return absl::UnimplementedError(
      "this build has no Gloo, by which ranks communicate: install its headers (Debian: libgloo-dev) and build again "
      "in "
      "a new folder");
}

absl::StatusOr<std::unique_ptr<Group>> MakeGloo(Board& /*board*/, const std::string& /*name*/,
                                                std::chrono::milliseconds /*timeout*/, bool /*local*/,
                                                const Board::GivesUp& /*gives_up*/) {
  return GlooIsBuilt();
}
#endif

}  // namespace roofbench::ranks
