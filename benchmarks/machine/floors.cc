// SPDX-License-Identifier: Apache-2.0
// What no step can go below: waking and joining threads, calling an operator, and new memory from the system.

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full_like.h>

#include <cmath>
#include <cstdint>
#include <functional>

#include "benchmarks/machine/pages_axis.h"
#include "lib/kernels/threading/huge_pages.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/elementwise.h"

namespace roofbench {
namespace {

Tolerance Exact(const Point&) { return Tolerance{.dtype = workload::Dtype::kInt8}; }

constexpr int64_t kBarriers = 1000;  // of a region, which is short beside them

// How often each thread ran, or left a barrier; on lines of their own.
struct Threads {
  at::Tensor counts;  // [threads, 8]
  int64_t each = 0;

  int64_t& CountOf(int thread) const { return counts.mutable_data_ptr<int64_t>()[8 * thread]; }
};

bool IsBarrier(const Point& at) { return at.Text("what") == "barrier"; }

const Registration kParallelRegion =
    FamilyOf<Threads>("parallel_region", "what all threads of the run take to begin and end together")
        .Choice("what", {"region", "barrier"}, "region: an empty one of OpenMP's pool; barrier: of ours, inside one")
        .DefaultCache(kWarm)
        .Work([](const Point& at) {
          return workload::Cost{.in_sequence = IsBarrier(at) ? static_cast<double>(kBarriers) : 1};
        })
        .Operands([](const Point&, Inputs& in) {
          return Threads{in.Empty({in.device().threads(), 8}, at::kLong).zero_()};
        })
        .Result([](const Threads& o) { return o.counts.select(1, 0); })
        .Reference([](const Threads& o) { return at::full_like(o.counts.select(1, 0), o.each); })
        .Within(Exact)
        .Impl("pool", OnCpu([](Threads&, const Point& at, Inputs& in) -> std::function<void(Threads&)> {
                const int threads = in.device().threads();
                if (!IsBarrier(at)) {
                  return [threads](Threads& o) {
                    kernels::ThreadPool(threads).OnEach([&](int thread) { ++o.CountOf(thread); });
                    ++o.each;
                  };
                }
                return [threads](Threads& o) {
                  kernels::ThreadPool(threads).Region([&](const kernels::Worker& worker) {
                    for (int64_t i = 0; i < kBarriers; ++i) {
                      worker.Barrier();
                      ++o.CountOf(worker.index());
                    }
                  });
                  o.each += kBarriers;
                };
              }))
        .Points(Suite::kMachineQuick, {{"what", {"region", "barrier"}}});

struct Element {
  at::Tensor x, y;
};

const Registration kOperatorCall =
    FamilyOf<Element>("operator_call", "an operator of LibTorch on one element; on a GPU, a launch")
        .Choice("what", {"out", "new"}, "its result: into a tensor that exists, or a new one")
        .DefaultCache(kWarm)
        .Work([](const Point&) { return workload::Cost{.in_sequence = 1}; })
        .Operands([](const Point&, Inputs& in) {
          return Element{in.Randn({1}), in.Empty({1}, at::kFloat)};
        })
        .Reference([](const Element& o) { return o.x.to(at::kDouble).mul_(2); })
        .Impl("add", Prepared([](Element&, const Point& at, Inputs&) {
                return at.Text("what") == "out" ? +[](Element& o) { at::add_out(o.y, o.x, o.x); }
                                                : +[](Element& o) { o.y = at::add(o.x, o.x); };
              }))
        .Points(Suite::kMachineQuick, {{"what", {"out", "new"}}});

constexpr int64_t kSmallPage = 4096;

struct Fresh {
  hardware::HugeBuffer memory;
  int64_t bytes = 0;
  hardware::Pages pages = {};
  int threads = 0;

  int64_t& WordOf(int64_t page) const {
    return *reinterpret_cast<int64_t*>(memory.data() + static_cast<std::size_t>(page * kSmallPage));
  }
  // Returns the memory of the last step, maps new memory and writes to all of its pages.
  void Step() {
    memory = {};
    memory = hardware::HugeBuffer::Untouched(static_cast<std::size_t>(bytes), pages);
    const kernels::ThreadPool pool(threads);
    pool(bytes / kSmallPage, [this](kernels::Range range) {
      for (int64_t page = range.begin; page < range.end; ++page) WordOf(page) = page;
    });
  }
};

const Registration kFirstTouch =
    WithPages<Fresh>("first_touch", "new memory from the system: maps it, writes to each page, and gives it back",
                     kSmallPage)
        .Work([](const Point& at) {
          workload::Cost cost = workload::WriteStream{at.Number("bytes")}.Cost();
          const double page = PagesAt(at) == hardware::Pages::kHuge ? kernels::kHugePageBytes : kSmallPage;
          cost.in_sequence = std::ceil(at.Number("bytes") / page);
          return cost;
        })
        .Operands([](const Point& at, Inputs& in) {
          return Fresh{{}, at.Int("bytes"), PagesAt(at), in.device().threads()};
        })
        .Result([](const Fresh& o) {
          const int64_t pages = o.bytes / kSmallPage;
          return at::from_blob(o.memory.data(), {pages}, {kSmallPage / 8}, at::TensorOptions(at::kLong));
        })
        .Reference([](const Fresh& o) { return at::arange(o.bytes / kSmallPage, at::kLong); })
        .Within(Exact)
        .Impl("map", OnCpu([](Fresh& o) { o.Step(); }))
        .Points(Suite::kMachineQuick, {{kPagesAxis, {"huge", "small"}}, {"bytes", {1_Mi}}})
        .Points(Suite::kMachine, {{kPagesAxis, {"huge", "small"}}, {"bytes", {1_Gi}}});

}  // namespace
}  // namespace roofbench
