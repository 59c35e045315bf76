// SPDX-License-Identifier: Apache-2.0
// Ranks that compute together, and the collectives between them. The engine is that of LibTorch, c10d, which only the
// sources of this layer see.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/ranks/board.h"

namespace roofbench::ranks {

// A collective that has begun.
class Work {
 public:
  virtual ~Work() = default;
  // Returns when the result is in memory; throws ContactLost as the group does.
  virtual void Wait() = 0;
};

// LibTorch's own c10d::Reducer, the engine of its DistributedDataParallel, with that class's defaults: it averages the
// gradients of parameters in buckets while backward runs.
class Reducer {
 public:
  virtual ~Reducer() = default;
  // Before each forward pass, and between it and its backward pass, whose gradients are averaged when it returns.
  // Without both, they stay those of this rank.
  virtual void BeforeForward() = 0;
  virtual void BeforeBackward() = 0;
  // Each bucket's, in the order of their all-reduces.
  virtual std::vector<int64_t> BucketElements() const = 0;
};

// Every rank calls the same functions in the same order with tensors of the same shapes and types, contiguous. A call
// returns when its result is in memory, or will be for what the device does next; it throws ContactLost if another rank
// left the group or takes longer than the timeout.
class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "gloo", "nccl" for tensors of GPUs, or "none" for the group of one rank.
  virtual std::string backend() const = 0;

  // Sums in place.
  virtual void AllReduce(at::Tensor& tensor) = 0;
  // The same while the caller continues, without touching the tensor before Work::Wait. The default has ended on
  // return.
  virtual std::unique_ptr<Work> StartAllReduce(at::Tensor& tensor);
  // The inputs of all ranks in their order: `output` has size() times the elements of `input`.
  virtual void AllGather(at::Tensor& output, const at::Tensor& input) = 0;
  // The same while the caller continues, without touching `output` before Work::Wait.
  virtual std::unique_ptr<Work> StartAllGather(at::Tensor& output, const at::Tensor& input);
  // This rank's part of the sum of all inputs: `input` has size() times the elements of `output`.
  virtual void ReduceScatter(at::Tensor& output, const at::Tensor& input) = 0;
  // The same, and `input` may be overwritten, which spares a copy of it.
  virtual void ReduceScatterInput(at::Tensor& output, at::Tensor& input) { ReduceScatter(output, input); }
  // That while the caller continues, without touching either before Work::Wait. `output` may be this rank's part of
  // `input`.
  virtual std::unique_ptr<Work> StartReduceScatter(at::Tensor& output, at::Tensor& input);
  // A view of this rank's elements, of as many parts of `whole` as there are ranks.
  at::Tensor PartOf(const at::Tensor& whole) const;
  virtual void Broadcast(at::Tensor& tensor, int root) = 0;
  // Part r of `input` goes to rank r; part r of `output` comes from there.
  virtual void AllToAll(at::Tensor& output, const at::Tensor& input) = 0;
  virtual void Send(const at::Tensor& tensor, int to) = 0;
  virtual void Receive(at::Tensor& tensor, int from) = 0;
  // Both at once.
  virtual void SendReceive(const at::Tensor& sent, int to, at::Tensor& received, int from) = 0;
  // Returns when every rank has called it.
  virtual void Barrier() = 0;
  // The caller's device continues when every rank's has reached this point. The host need not wait.
  virtual void Meet() { Barrier(); }
  // For leaves that require gradients; it must not outlive them. nullptr: the backend has none.
  virtual std::unique_ptr<Reducer> MakeReducer(const std::vector<at::Tensor>& parameters);
};

// A group of one rank, whose collectives copy. Messages to itself wait until they are received.
std::unique_ptr<Group> MakeAlone();

// OK if this build has Gloo; otherwise Unimplemented says what to install.
absl::Status GlooIsBuilt();

// The ranks of the board as a group over Gloo, whose calls wait up to `timeout`. Every rank calls it with the same
// `name`, which is used once. `local`: all ranks are on this machine and meet at its loopback interface; otherwise at
// the interface that GLOO_SOCKET_IFNAME names, or that of the host name. Unavailable names the ranks that did not come,
// or gives the reason of `gives_up`.
absl::StatusOr<std::unique_ptr<Group>> MakeGloo(Board& board, const std::string& name,
                                                std::chrono::milliseconds timeout, bool local,
                                                const Board::GivesUp& gives_up = {});

}  // namespace roofbench::ranks
