// SPDX-License-Identifier: Apache-2.0
// Ranks that have a GPU each. LibTorch's backend for these, NCCL, is in the CUDA part of the program, which exports it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lib/ranks/board.h"
#include "lib/ranks/group.h"

namespace c10d {
class Backend;
}

namespace roofbench::ranks {

// The row of lib/device/unverified.cc that stands for it.
inline constexpr char kNccl[] = "NcclGroup";

// The CUDA part exports this under kNcclSymbol. `make`: a backend for the memory of `device`, whose ranks meet by
// `store`; the device gives up after `timeout`. Throws if it cannot make one.
struct NcclModule {
  c10::intrusive_ptr<c10d::Backend> (*make)(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            at::Device device, std::chrono::milliseconds timeout);
};
inline constexpr char kNcclSymbol[] = "roofbench_nccl";

// The GPU of this rank.
struct RankDevice {
  std::string id;  // the same on ranks that share it; empty: this rank computes on processors
  at::Device device = at::kCPU;
  const NcclModule* nccl = nullptr;  // nullptr: the CUDA part has none
};

// The group of `host` if no rank has a GPU. Otherwise one that exchanges tensors of `own.device` on LibTorch's current
// stream, where a call returns before its result is there, and those of the host by `host`, as it does barriers. Every
// rank calls it with the same `name`, which is used once. Unimplemented: ranks share a GPU, or there is no NCCL;
// FailedPrecondition names a rank without a GPU where another has one; Unavailable names the ranks that did not come.
absl::StatusOr<std::unique_ptr<Group>> WithDevice(std::unique_ptr<Group> host, const RankDevice& own, Board& board,
                                                  const std::string& name, std::chrono::milliseconds timeout,
                                                  const Board::GivesUp& gives_up = {});

// The same over a given backend.
std::unique_ptr<Group> OverBackend(std::unique_ptr<Group> host, c10::intrusive_ptr<c10d::Backend> backend,
                                   at::Device device);

}  // namespace roofbench::ranks
