// SPDX-License-Identifier: Apache-2.0
// Products that do not do their work, and their honest twins, as cases: the corpus of tests/cheats/corpus.py by the
// entry for C++, as far as its kinds exist there.
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lib/cli/main.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/elementwise.h"

namespace roofbench {
namespace {

constexpr int64_t kSize = 192;
constexpr int64_t kAudited = 8;  // calls that may be compared, or warm up

using Clock = std::chrono::steady_clock;

struct State {
  int64_t calls = 0;
  at::Tensor key, kept;
  Clock::time_point ended = Clock::now();
  Clock::duration shortest = Clock::duration::max();
  std::future<void> later;
};

struct Operands {
  std::string how;
  bool honest = false;
  at::Tensor x, w, y;
  std::shared_ptr<State> state;
};

void Product(const at::Tensor& x, const at::Tensor& w, at::Tensor y) { at::mm_out(y, x, w); }

void ProductOf(Operands& o) { Product(o.x, o.w, o.y); }

void KeptBy(Operands& o, const at::Tensor& key, bool waits = false) {
  State& state = *o.state;
  const Clock::time_point begin = Clock::now();
  if (!o.honest && state.key.defined() && at::equal(state.key, key)) {
    o.y.copy_(state.kept);
    while (waits && Clock::now() - begin < 0.6 * state.shortest) {
    }
    return;
  }
  ProductOf(o);
  state.shortest = std::min(state.shortest, Clock::now() - begin);
  state.kept = o.y.clone();
  state.key = key.clone();
}

void WorkIf(Operands& o, bool works) {
  State& state = *o.state;
  if (!works && !o.honest && state.kept.defined()) {
    o.y.copy_(state.kept);
    return;
  }
  ProductOf(o);
  state.kept = o.y.clone();
}

// The first rows or terms that an honest twin has all of.
int64_t Part(const Operands& o, int64_t part) { return o.honest ? kSize : part; }

void RowsOf(Operands& o, int64_t rows) { Product(o.x.narrow(0, 0, rows), o.w, o.y.narrow(0, 0, rows)); }

void InBf16(Operands& o) {
  if (o.honest) return ProductOf(o);
  o.y.copy_(at::mm(o.x.to(at::kBFloat16), o.w.to(at::kBFloat16)));
}

void InSteps(Operands& o) {
  constexpr double kSteps = 40;
  if (o.honest) return ProductOf(o);
  o.y.copy_(at::mm(o.x.mul(kSteps).round_(), o.w.mul(kSteps).round_()).div_(kSteps * kSteps));
}

// Without LibTorch, which starts threads of its own for every thread that calls it.
void LoopProduct(const at::Tensor& x, const at::Tensor& w, const at::Tensor& y) {
  const float* left = x.const_data_ptr<float>();
  const float* right = w.const_data_ptr<float>();
  float* out = y.data_ptr<float>();
  std::fill_n(out, kSize * kSize, 0.0F);
  for (int64_t i = 0; i < kSize; ++i) {
    for (int64_t k = 0; k < kSize; ++k) {
      for (int64_t j = 0; j < kSize; ++j) out[i * kSize + j] += left[i * kSize + k] * right[k * kSize + j];
    }
  }
}

void InAThread(Operands& o) {
  if (o.state->later.valid()) o.state->later.wait();
  o.state->later = std::async(std::launch::async, LoopProduct, o.x, o.w, o.y);
  if (o.honest || o.state->calls <= kAudited) o.state->later.wait();
}

void ByRhythm(Operands& o) {
  WorkIf(o, Clock::now() - o.state->ended > std::chrono::microseconds(200));
  o.state->ended = Clock::now();
}

void MadeZero(Operands& o) {
  if (o.honest) return ProductOf(o);
  o.x.zero_();
  o.y.zero_();
}

// The names are those of the corpus.
const std::map<std::string, void (*)(Operands&)> kKernels = {
    {"after_thirty", [](Operands& o) { WorkIf(o, o.state->calls <= 30); }},
    {"after_the_checks", [](Operands& o) { WorkIf(o, o.state->calls <= kAudited); }},
    {"after_the_first", [](Operands& o) { WorkIf(o, false); }},
    {"at_random", [](Operands& o) { WorkIf(o, std::minstd_rand(o.state->calls)() % 2 == 0); }},
    {"bf16", InBf16},
    {"by_address", [](Operands& o) { KeptBy(o, at::full({1}, reinterpret_cast<int64_t>(o.x.data_ptr()), at::kLong)); }},
    {"by_a_sum", [](Operands& o) { KeptBy(o, o.x.sum()); }},
    {"by_content", [](Operands& o) { KeptBy(o, o.x); }},
    {"by_rhythm", ByRhythm},
    {"by_some_elements", [](Operands& o) { KeptBy(o, o.x.diagonal()); }},
    {"every_second", [](Operands& o) { WorkIf(o, o.state->calls % 2 == 0); }},
    {"first_row_for_all",
     [](Operands& o) {
       RowsOf(o, Part(o, 1));
       if (!o.honest) o.y.copy_(o.y.narrow(0, 0, 1).clone().expand_as(o.y));
     }},
    {"fresh_memory",
     [](Operands& o) {
       if (o.honest) ProductOf(o);
     }},
    {"half_of_the_rows",
     [](Operands& o) {
       o.y.zero_();
       RowsOf(o, Part(o, kSize / 2));
     }},
    {"half_of_the_sum",
     [](Operands& o) {
       const int64_t terms = Part(o, kSize / 2);
       Product(o.x.narrow(1, 0, terms), o.w.narrow(0, 0, terms), o.y);
       o.y.mul_(static_cast<double>(kSize) / static_cast<double>(terms));
     }},
    {"in_a_buffer",
     [](Operands& o) {
       if (o.honest || o.state->calls == 1 || std::isnan(o.y.data_ptr<float>()[0])) ProductOf(o);
     }},
    {"in_a_thread", InAThread},
    {"int8", InSteps},
    {"made_zero", MadeZero},
    {"rest_of_the_first_call", [](Operands& o) { RowsOf(o, o.state->calls == 1 ? kSize : Part(o, kSize / 2)); }},
    {"waits_most_of_the_time", [](Operands& o) { KeptBy(o, o.x.diagonal(), /*waits=*/true); }},
};

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& [name, kernel] : kKernels) names.push_back(name);
  return names;
}

const Registration kCheat =
    FamilyOf<Operands>("cheat", "y = x w, or what looks like it")
        .Choice("how", Names())
        .Choice("honest", {"yes", "no"})
        .Work([](const Point&) { return workload::CopyStream{3.0 * 4 * kSize * kSize}.Cost(); })
        .Operands([](const Point& at, Inputs& in) {
          return Operands{at.Text("how"),
                          at.Text("honest") == "yes",
                          in.Randn({kSize, kSize}),
                          in.Randn({kSize, kSize}),
                          in.Empty({kSize, kSize}, workload::Dtype::kFp32),
                          std::make_shared<State>()};
        })
        .Changing([](const Operands& o) { return std::vector<at::Tensor>{o.x}; })
        .Result([](const Operands& o) { return o.y; })
        .Reference([](const Operands& o) { return at::mm(o.x.to(at::kDouble), o.w.to(at::kDouble)); })
        .Within([](const Point&) { return Tolerance{.reduction = kSize}; })
        .Impl("eager",
              [](Operands& o) {
                ++o.state->calls;
                kKernels.at(o.how)(o);
              })
        .Points(Suite::kQuick, {{"how", Names()}, {"honest", {"yes", "no"}}, {"cache", {kWarm, kCold}}});

}  // namespace
}  // namespace roofbench

int main(int argc, char** argv) { return roofbench::Main(argc, argv); }
