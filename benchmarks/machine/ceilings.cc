// SPDX-License-Identifier: Apache-2.0
// What the machine itself sets to every other case: the latency of its memory, and the rates of its arithmetic.
//
// A load that waits for the one before it takes the latency of the level that its line lies in: from 16 KiB, in every
// L1, to 1 GiB, beyond all caches. On small pages, misses in the translation of addresses add to it.
//
// The arithmetic has its operands in registers, so that nothing but the units, their clock and their power limit it:
// zeros show what the data cost, and the rate after 20 s of the same work what the machine keeps up.

#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "benchmarks/machine/pages_axis.h"
#include "lib/hardware/roofs/bursts.h"
#include "lib/hardware/roofs/compute_loops.h"
#include "lib/hardware/roofs/pointer_chase.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/suite/family_of.h"

namespace roofbench {
namespace {

constexpr int64_t kLoads = 1 << 16;  // a tenth of a millisecond in L1, some milliseconds in memory

struct Chase {
  std::unique_ptr<hardware::PointerChase> lines;
  int64_t loads;  // in all steps
  at::Tensor y;   // the line that was reached, and the length of the cycle
};

const Registration kLatency =
    WithPages<Chase>("latency", "loads from memory, each of which needs the one before: latency_ns is the time of each",
                     64)
        .Work(
            [](const Point& at) { return workload::Cost{.resident_bytes = at.Number("bytes"), .in_sequence = kLoads}; })
        .Operands([](const Point& at, Inputs&) {
          auto lines = std::make_unique<hardware::PointerChase>(static_cast<std::size_t>(at.Int("bytes")), PagesAt(at));
          const int64_t length = lines->CycleLength();
          return Chase{std::move(lines), 0, at::tensor({int64_t{0}, length})};
        })
        .Impl("chase", OnCpu([](Chase& o) {
                o.lines->Follow(kLoads);
                o.loads += kLoads;
                o.y[0] = o.lines->line();
              }))
        .Reference([](const Chase& o) {
          return at::tensor({o.lines->LineAfter(o.loads), o.lines->lines()});
        })
        .Within([](const Point&) { return Tolerance{.dtype = workload::Dtype::kInt8}; })
        .Points(Suite::kMachineQuick,
                {{kPagesAxis, {"huge"}}, {"bytes", {16_Ki, 64_Ki, 256_Ki, 1_Mi, 4_Mi, 16_Mi, 64_Mi, 256_Mi, 1_Gi}}})
        .Points(Suite::kMachine, {{kPagesAxis, {"huge", "small"}},
                                  {"bytes",
                                   {16_Ki, 32_Ki, 64_Ki, 128_Ki, 256_Ki, 512_Ki, 1_Mi, 2_Mi, 4_Mi, 8_Mi, 16_Mi, 32_Mi,
                                    64_Mi, 128_Mi, 256_Mi, 512_Mi, 1_Gi}}});

constexpr char kDataAxis[] = "data";
constexpr char kAfterAxis[] = "after";

// The widest loop of vectors, or the one of tiles; nullptr if this processor has none.
const hardware::ComputeLoop* LoopAt(const Point& at) {
  const hardware::ComputeLoop* widest = nullptr;
  for (const hardware::ComputeLoop& loop : hardware::ComputeLoops()) {
    if (loop.dtype == at.Dtype() && loop.HasTiles() == (at.Text(kImplAxis) == "tile")) widest = &loop;
  }
  return widest;
}

// One thread's iterations are runs of the loop of so many, each from the same start: the sums of longer runs in bf16
// would round too often to be compared.
constexpr int64_t kRun = 4096;
// fp32 sums forget the first of many iterations. These few, in addition, count them.
constexpr int64_t kFew = 3;

struct Arithmetic {
  const hardware::ComputeLoop* loop;
  hardware::Factors factors;
  int threads;
  int64_t iterations;  // of all threads
  at::Tensor y;  // [threads, 3]: the mean sum of all runs, that of the few iterations, and the share of all that ran

  // `sum(n)` is that of n iterations.
  template <typename Sum>
  void Each(int thread, float* means, Sum sum) const {
    const int64_t own = kernels::Share(iterations, 1, thread, threads).size();
    double total = 0;
    int64_t ran = 0;
    while (ran < own) {
      const int64_t next = std::min(own - ran, kRun);
      total += sum(next);
      ran += next;
    }
    const auto all = static_cast<double>(std::max<int64_t>(own, 1));
    means[3 * thread] = static_cast<float>(total * kRun / all);
    means[3 * thread + 1] = static_cast<float>(sum(kFew));
    means[3 * thread + 2] = static_cast<float>(static_cast<double>(ran) / all);
  }
  void Run() {
    float* const means = y.mutable_data_ptr<float>();
    const auto run = factors == hardware::Factors::kZeros ? loop->run_on_zeros : loop->run;
    kernels::ThreadPool(threads).OnEach([&](int thread) { Each(thread, means, run); });
  }
  at::Tensor Expected() const {
    at::Tensor expected = at::empty_like(y);
    std::map<int64_t, double> sums;
    const auto sum = [&](int64_t n) {
      const auto [known, is_new] = sums.try_emplace(n);
      if (is_new) known->second = loop->Expected(n, factors);
      return known->second;
    };
    for (int thread = 0; thread < threads; ++thread) Each(thread, expected.mutable_data_ptr<float>(), sum);
    return expected;
  }
};

absl::Status LoopSupports(const Point& at, const Device&) {
  if (LoopAt(at) != nullptr) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("this processor has no ", at.Text(kImplAxis),
                                               " instructions that multiply and add in ", at.Text(kDtypeAxis),
                                               ", or we have no loop of them"));
}

const Registration kArithmetic =
    FamilyOf<Arithmetic>("arithmetic", "multiplies and adds in registers: the loops that arithmetic's roofs may be")
        .Dtypes({"fp32", "bf16", "int8", "fp16", "fp64"})
        .Size("iterations", "of the loop, whose length is that of its pipelines, by all threads", 1_Mi)
        .Threads()
        .Choice(kDataAxis, {"random", "zeros"}, "factors: zeros draw less power", "random")
        .Number(kAfterAxis, "seconds of the same work before the samples", 0)
        .DefaultCache(kWarm)
        .Work([](const Point& at) {
          const hardware::ComputeLoop* const loop = LoopAt(at);
          const double flops = loop == nullptr ? 0 : loop->flops_per_iteration * at.Number("iterations");
          return workload::Cost{.operations = {workload::Operation().WithFlops(at.Dtype(), flops)}};
        })
        .Operands([](const Point& at, Inputs& in) {
          const int threads = ThreadsAt(at, in.device());
          return Arithmetic{LoopAt(at),
                            at.Text(kDataAxis) == "zeros" ? hardware::Factors::kZeros : hardware::Factors::kRandom,
                            threads, at.Int("iterations"), in.Empty({threads, 3}, at::kFloat)};
        })
        .Reference([](const Arithmetic& o) { return o.Expected(); })
        .Within([](const Point&) { return Tolerance{.reduction = 1e6}; })
        .Changing([](const Arithmetic&) { return std::vector<at::Tensor>(); })
        .Impl("vector", OnCpu([](Arithmetic& o) { o.Run(); }))
        .Impl("tile", OnCpu([](Arithmetic& o) { o.Run(); }))
        .Supports(LoopSupports)
        .Details([](const Point& at, const std::shared_ptr<Arithmetic>& o, Case& built) {
          if (at.Number(kAfterAxis) == 0) return;
          built.prepare = [o, seconds = at.Number(kAfterAxis)]() mutable {
            for (const double end = hardware::WallSeconds() + seconds; hardware::WallSeconds() < end;) o->Run();
            seconds = 0;
          };
        })
        .Points(Suite::kMachineQuick, {{"impl", {"vector"}}, {"dtype", {"fp32", "bf16", "int8", "fp16", "fp64"}}})
        .Points(Suite::kMachineQuick, {{"impl", {"tile"}}, {"dtype", {"bf16", "int8"}}})
        .Points(Suite::kMachine,
                {{"impl", {"vector"}}, {"dtype", {"fp32", "bf16", "int8", "fp16", "fp64"}}, {kThreadsAxis, {1}}})
        .Points(Suite::kMachine, {{"impl", {"tile"}}, {"dtype", {"bf16", "int8"}}, {kThreadsAxis, {1}}})
        .Points(Suite::kMachine, {{"impl", {"vector"}}, {"dtype", {"fp32", "bf16", "int8"}}, {kDataAxis, {"zeros"}}})
        .Points(Suite::kMachine, {{"impl", {"tile"}}, {"dtype", {"bf16", "int8"}}, {kDataAxis, {"zeros"}}})
        .Points(Suite::kMachine, {{"impl", {"vector"}}, {"dtype", {"fp32", "bf16"}}, {kAfterAxis, {20}}})
        .Points(Suite::kMachine, {{"impl", {"tile"}}, {"dtype", {"bf16"}}, {kAfterAxis, {20}}});

}  // namespace
}  // namespace roofbench
