// SPDX-License-Identifier: Apache-2.0
// A group that does what another one does, for tests that change a part of it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "lib/ranks/group.h"

namespace roofbench::ranks {

class ForwardingGroup : public Group {
 public:
  explicit ForwardingGroup(std::shared_ptr<Group> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string backend() const override { return inner_->backend(); }
  void AllReduce(at::Tensor& tensor) override { inner_->AllReduce(tensor); }
  void AllGather(at::Tensor& output, const at::Tensor& input) override { inner_->AllGather(output, input); }
  void ReduceScatter(at::Tensor& output, const at::Tensor& input) override { inner_->ReduceScatter(output, input); }
  void Broadcast(at::Tensor& tensor, int root) override { inner_->Broadcast(tensor, root); }
  void AllToAll(at::Tensor& output, const at::Tensor& input) override { inner_->AllToAll(output, input); }
  void Send(const at::Tensor& tensor, int to) override { inner_->Send(tensor, to); }
  void Receive(at::Tensor& tensor, int from) override { inner_->Receive(tensor, from); }
  void SendReceive(const at::Tensor& sent, int to, at::Tensor& received, int from) override {
    inner_->SendReceive(sent, to, received, from);
  }
  void Barrier() override { inner_->Barrier(); }

 private:
  const std::shared_ptr<Group> inner_;
};

}  // namespace roofbench::ranks
