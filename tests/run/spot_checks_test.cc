// SPDX-License-Identifier: Apache-2.0
#include "lib/run/spot_checks.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lib/run/session.h"
#include "lib/suite/family_of.h"
#include "tests/run/simple_case.h"

namespace roofbench {
namespace {

using testing::HasSubstr;

constexpr int64_t kRows = 16;
constexpr int64_t kCols = 4096;
constexpr double kHonestSeconds = 2e-6;
constexpr double kKeptSeconds = 13e-9;

struct Operands {
  at::Tensor x, y;
};

// A kernel, honest or not, on the fake clock.
class Kernel {
 public:
  explicit Kernel(FakeDevice& device) : device_(device) {}
  virtual ~Kernel() = default;
  virtual void Run(Operands& o) = 0;

 protected:
  void Work(Operands& o, double seconds = kHonestSeconds) {
    at::add_out(o.y, o.x, o.x);
    device_.fake_clock.Advance(seconds);
  }
  void DoNothing() { device_.fake_clock.Advance(kKeptSeconds); }
  void CopyKept(Operands& o) {
    o.y.copy_(kept_);
    DoNothing();
  }
  void Keep(Operands& o) {
    Work(o);
    kept_ = o.y.clone();
  }
  double Now() { return device_.fake_clock.HostSeconds(); }

  at::Tensor kept_;

 private:
  FakeDevice& device_;
};

class Honest : public Kernel {
 public:
  using Kernel::Kernel;
  void Run(Operands& o) override { Work(o); }
};

// Works in its first calls alone.
template <int kCalls>
class Stops : public Kernel {
 public:
  using Kernel::Kernel;
  void Run(Operands& o) override {
    if (calls_++ < kCalls) return Work(o);
    DoNothing();
  }

 private:
  int calls_ = 0;
};

// Leaves out half of the rows after some calls.
class Halves : public Kernel {
 public:
  using Kernel::Kernel;
  void Run(Operands& o) override {
    if (calls_++ < 3) return Work(o);
    Operands half{o.x.narrow(0, 0, kRows / 2), o.y.narrow(0, 0, kRows / 2)};
    Work(half, kHonestSeconds / 2);
  }

 private:
  int calls_ = 0;
};

// Leaves out every second call, or half of them by chance.
template <bool kByChance>
class Alternates : public Kernel {
 public:
  using Kernel::Kernel;
  void Run(Operands& o) override {
    const int call = calls_++;
    if (call < 2 || (kByChance ? std::minstd_rand(call)() : call) % 2 == 0) return Keep(o);
    CopyKept(o);
  }

 private:
  int calls_ = 0;
};

// Writes zeros into its operand after some calls, so that the reference is zero.
template <int kCalls>
class Zeroes : public Kernel {
 public:
  using Kernel::Kernel;
  void Run(Operands& o) override {
    if (calls_++ < kCalls) return Work(o);
    o.x.zero_();
    o.y.zero_();
    DoNothing();
  }

 private:
  int calls_ = 0;
};

class KeptByAddress : public Kernel {
 public:
  using Kernel::Kernel;
  void Run(Operands& o) override {
    if (o.x.data_ptr() == address_) return CopyKept(o);
    address_ = o.x.data_ptr();
    Keep(o);
  }

 private:
  const void* address_ = nullptr;
};

// Knows its operand by `elements` of it.
template <int kElements>
class KeptByContent : public Kernel {
 public:
  using Kernel::Kernel;
  void Run(Operands& o) override {
    const at::Tensor key = o.x.view({-1}).slice(0, 0, std::nullopt, kRows * kCols / kElements);
    if (key_.defined() && at::equal(key_, key)) return CopyKept(o);
    key_ = key.clone();
    Keep(o);
  }

 private:
  at::Tensor key_;
};

// Works where its result was overwritten.
class KeptWhereItIsThere : public Kernel {
 public:
  using Kernel::Kernel;
  void Run(Operands& o) override {
    if (std::exchange(is_first_, false) || std::isnan(o.y[0][0].item<float>())) return Work(o);
    DoNothing();
  }

 private:
  bool is_first_ = true;
};

// Works after a pause, in which something may have changed.
class KeptInARow : public Kernel {
 public:
  using Kernel::Kernel;
  void Run(Operands& o) override {
    if (kept_.defined() && Now() - last_ < 1e-6) {
      CopyKept(o);
    } else {
      Keep(o);
    }
    last_ = Now();
  }

 private:
  double last_ = 0;
};

// Works where an element of its operand has changed, and in some calls after that, so that no call with new values is
// slower than its neighbors.
class KeptForAWhile : public Kernel {
 public:
  using Kernel::Kernel;
  void Run(Operands& o) override {
    constexpr int kCalls = 2;
    if (!key_.defined() || !at::equal(key_, o.x)) {
      key_ = o.x.clone();
      left_ = kCalls + 1;
    }
    left_-- > 0 ? Keep(o) : CopyKept(o);
  }

 private:
  at::Tensor key_;
  int left_ = 0;
};

// Works after a pause, and in as many calls after that as are checked in a row.
class KeptInALongRow : public Kernel {
 public:
  using Kernel::Kernel;
  void Run(Operands& o) override {
    constexpr int kCalls = 8;
    if (!kept_.defined() || Now() - last_ > 1e-6) left_ = kCalls;
    left_-- > 0 ? Keep(o) : CopyKept(o);
    last_ = Now();
  }

 private:
  double last_ = 0;
  int left_ = 0;
};

// Works in the first call of a sample, and where it is checked, alone.
class SkipsInASample : public Kernel {
 public:
  explicit SkipsInASample(FakeDevice& device) : Kernel(device), clock_(device.fake_clock) {}
  void Run(Operands& o) override {
    if (std::exchange(was_in_chunk_, clock_.InChunk()) && clock_.InChunk()) return DoNothing();
    Work(o);
  }

 private:
  timing::FakeClock& clock_;
  bool was_in_chunk_ = false;
};

// Copies its result, in the time that its work takes, where few elements have changed since.
class KeptWhereFewChange : public Kernel {
 public:
  explicit KeptWhereFewChange(FakeDevice& device) : Kernel(device), clock_(device.fake_clock) {}
  void Run(Operands& o) override {
    const bool is_known = kept_.defined() && at::ne(seen_, o.x).sum().item<int64_t>() < kCols / 8;
    if (!is_known) {
      seen_ = o.x.clone();
      return Keep(o);
    }
    CopyKept(o);
    clock_.Advance(kHonestSeconds);
  }

 private:
  timing::FakeClock& clock_;
  at::Tensor seen_;
};

// Brings its result up to date, in the time that this takes of the elements that have changed.
class BroughtUpToDate : public Kernel {
 public:
  explicit BroughtUpToDate(FakeDevice& device) : Kernel(device), clock_(device.fake_clock) {}
  void Run(Operands& o) override {
    if (!kept_.defined()) seen_ = at::full_like(o.x, std::nan(""));
    const double changed = at::ne(seen_, o.x).to(at::kDouble).mean().item<double>();
    seen_ = o.x.clone();
    kept_ = at::add(o.x, o.x);
    CopyKept(o);
    clock_.Advance(kHonestSeconds * changed);
  }

 private:
  timing::FakeClock& clock_;
  at::Tensor seen_;
};

// Works where an element of its operand has changed, and in two of five calls by chance, so that steps with the same
// values are slow in some turns.
class WorksByChanceToo : public Kernel {
 public:
  using Kernel::Kernel;
  void Run(Operands& o) override {
    if (kept_.defined() && at::equal(seen_, o.x) && random_() % 5 > 1) return CopyKept(o);
    seen_ = o.x.clone();
    Keep(o);
  }

 private:
  std::mt19937 random_;
  at::Tensor seen_;
};

// Has a table of the values that its operand had at first, as some of its elements show.
class KnowsTheFirstValues : public Kernel {
 public:
  using Kernel::Kernel;
  void Run(Operands& o) override {
    constexpr int64_t kLooked = 64;
    const auto* const x = o.x.const_data_ptr<float>();
    if (known_.empty()) known_.insert(x, x + o.x.numel());
    const bool are_known = std::all_of(x, x + kLooked, [this](float one) { return known_.contains(one); });
    are_known ? Work(o, kKeptSeconds) : Work(o);
  }

 private:
  std::unordered_set<float> known_;
};

// Takes a millisecond, or somewhat less to copy what it kept where steps follow each other.
class KeptInARowOfLongSteps : public Kernel {
 public:
  explicit KeptInARowOfLongSteps(FakeDevice& device) : Kernel(device), clock_(device.fake_clock) {}
  void Run(Operands& o) override {
    if (kept_.defined() && Now() - last_ < 1e-6) {
      CopyKept(o);
      clock_.Advance(5e-4);
    } else {
      Work(o, 1e-3);
      kept_ = o.y.clone();
    }
    last_ = Now();
  }

 private:
  timing::FakeClock& clock_;
  double last_ = 0;
};

// Those that are slow at all times are so slow that the whole is checked once, before the samples.
enum class Reference { kWhole, kByRows, kByRowsSlowly, kOfSamplesSlowly, kWholeSlowlyLater };

std::string Name(Reference reference) {
  constexpr std::array kNames = {"", "_by_rows", "_by_rows_slowly", "_of_samples_slowly", "_slowly_later"};
  return kNames.at(static_cast<std::size_t>(reference));
}

void TakeLongerThanChecksMay() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

struct Trial {
  std::string name;
  std::function<std::unique_ptr<Kernel>(FakeDevice&)> kernel;
  std::string reason = {};  // empty: measured
  bool is_by_chance = false;
};

template <typename K>
Trial Of(std::string name, std::string reason = {}, bool is_by_chance = false) {
  return {std::move(name), [](FakeDevice& device) { return std::make_unique<K>(device); }, std::move(reason),
          is_by_chance};
}

constexpr const char* kWrong = "after it was right at first: wrong ";
constexpr const char* kSlower = "with new values of its operands and ";  // measured with those
constexpr const char* kChanges = "the step changed an operand, of shape [16,4096]";

class SpotChecksTest : public testing::TestWithParam<std::tuple<Trial, Reference>> {
 protected:
  // So fast that no step is above its roof, which another test is about.
  SpotChecksTest() { device_.roof_rate = 1e18; }

  // The outcome of a case in a session of its own.
  Outcome Run(const char* cache = kWarm, const std::vector<int64_t>& shape = {kRows, kCols}) {
    const auto& [trial, reference] = GetParam();
    std::shared_ptr<Kernel> kernel = trial.kernel(device_);
    FamilyOf<Operands> family("twice", "y = x + x");
    family.Size("n")
        .Work([](const Point&) { return workload::CopyStream{4.0 * kRows * kCols}.Cost(); })
        .Operands([shape](const Point&, Inputs& in) {
          return Operands{in.Randn(shape), in.Empty(shape, at::kFloat)};
        })
        .Impl("planted", [kernel](Operands& o) { kernel->Run(o); })
        .Points(Suite::kQuick, {{"n", {1}}});
    if (reference == Reference::kWhole) {
      family.Reference([](const Operands& o) { return o.x.to(at::kDouble).mul_(2); });
    } else if (reference == Reference::kWholeSlowlyLater) {
      family.Reference([calls = std::make_shared<int>(0)](const Operands& o) {
        if ((*calls)++ > 0) TakeLongerThanChecksMay();
        return o.x.to(at::kDouble).mul_(2);
      });
    } else if (reference == Reference::kOfSamplesSlowly) {
      family.Result([](const Operands& o) { return o.y.narrow(0, 2, kRows - 4); })
          .Whole([](const Operands& o) { return o.y; })
          .RowSums([](const Operands& o) {
            TakeLongerThanChecksMay();
            return ExactRowSums(o.x).mul_(2);
          })
          .Reference([](const Operands& o) { return o.x.narrow(0, 2, kRows - 4).to(at::kDouble).mul_(2); });
    } else {
      family.Reference([is_slow = reference == Reference::kByRowsSlowly](const Operands& o, const RowRange& rows) {
        if (is_slow && rows.count == kRows) TakeLongerThanChecksMay();
        return rows.Of(o.x).mul_(2);
      });
    }
    const Family finished = family.Finish();
    RunOptions options;
    options.reference = "a100-sxm4-40gb";
    if (trial.reason == kSlower) options.sampling.max_samples = 200;  // each with new values, in the end
    return Session(options, device_, {PlannedOf(finished, {{"cache", cache}})}, nullptr).Run(0);
  }

  FakeDevice device_;
};

TEST_P(SpotChecksTest, OnlyWorkInEveryCallIsMeasured) {
  const auto& [trial, reference] = GetParam();
  const bool is_fast = reference == Reference::kWhole || reference == Reference::kByRows;
  for (int run = 0; run < (!trial.reason.empty() ? 1 : is_fast ? 20 : 4); ++run) {
    Outcome outcome = Run(trial.reason.empty() && run % 2 == 1 ? kCold : kWarm);
    // What works in every second call may do so, by chance, in all eight that are checked. Samples of many such calls
    // take half of the honest time and a little.
    const auto is_fooled = [&] {
      return outcome.verdict == Verdict::kMeasured &&
             (trial.reason != kSlower || outcome.summary.median < kHonestSeconds / 2);
    };
    for (int others = 0; trial.is_by_chance && others < 2 && is_fooled(); ++others) {
      outcome = Run();
    }
    if (trial.reason.empty() || trial.reason == kSlower) {
      ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
      EXPECT_NEAR(outcome.summary.median, kHonestSeconds, trial.reason.empty() ? 1e-12 : 2 * kKeptSeconds);
    } else {
      ASSERT_EQ(outcome.verdict, Verdict::kFailed) << outcome.summary.median;
      EXPECT_THAT(outcome.reason, HasSubstr(trial.reason));
      EXPECT_THAT(outcome.reason,
                  HasSubstr(trial.reason == kChanges ? "part of its result" : "all of its work in every call"));
    }
  }
}

using Shapes = SpotChecksTest;

TEST_P(Shapes, OfAnyKindAreExchanged) {
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{1}, {2}, {7}, {300'001}, {512'000}, {3, 1}, {2, 3, 5}}) {
    const Outcome outcome = Run(kWarm, shape);
    EXPECT_EQ(outcome.verdict, Verdict::kMeasured) << testing::PrintToString(shape) << " " << outcome.reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Honest, Shapes,
                         testing::Combine(testing::Values(Of<Honest>("honest")),
                                          testing::Values(Reference::kWhole, Reference::kByRows)));

INSTANTIATE_TEST_SUITE_P(
    All, SpotChecksTest,
    testing::Combine(
        testing::Values(
            Of<Honest>("honest"), Of<Stops<1>>("stops_after_1", kWrong), Of<Stops<5>>("stops_after_5", kWrong),
            Of<Stops<1000>>("stops_after_1000", kWrong), Of<Halves>("halves", kWrong),
            Of<Alternates<false>>("every_second", kWrong, true), Of<Alternates<true>>("by_chance", kWrong, true),
            Of<Zeroes<0>>("zeroes", kChanges), Of<Zeroes<20>>("zeroes_after_20", kChanges),
            Of<KeptByAddress>("kept_by_address", kWrong), Of<KeptByContent<1>>("kept_by_an_element", kWrong),
            Of<KeptByContent<kRows * kCols>>("kept_by_all_elements", kSlower),
            Of<KeptWhereItIsThere>("kept_where_it_is_there", kWrong), Of<KeptInARow>("kept_in_a_row", kWrong),
            Of<SkipsInASample>("skips_in_a_sample", kWrong), Of<KeptWhereFewChange>("kept_where_few_change", kWrong),
            Of<KeptForAWhile>("kept_for_a_while", kSlower), Of<BroughtUpToDate>("brought_up_to_date", kSlower),
            Of<WorksByChanceToo>("works_by_chance_too", kSlower, true),
            Of<KnowsTheFirstValues>("knows_the_first_values", kSlower),
            Of<KeptInARowOfLongSteps>("kept_in_a_row_of_long_steps", kWrong)),
        testing::Values(Reference::kWhole, Reference::kByRows, Reference::kByRowsSlowly, Reference::kOfSamplesSlowly)),
    [](const auto& one) { return std::get<0>(one.param).name + Name(std::get<1>(one.param)); });

// Whose checks take several times as long as the first did: one of them alone would not see few changes.
INSTANTIATE_TEST_SUITE_P(OnABusyMachine, SpotChecksTest,
                         testing::Combine(testing::Values(Of<Honest>("honest"),
                                                          Of<KeptWhereFewChange>("kept_where_few_change", kWrong)),
                                          testing::Values(Reference::kWholeSlowlyLater)),
                         [](const auto& one) { return std::get<0>(one.param).name + Name(std::get<1>(one.param)); });

INSTANTIATE_TEST_SUITE_P(ByRows, SpotChecksTest,
                         testing::Combine(testing::Values(Of<KeptInALongRow>("kept_in_a_long_row", kWrong)),
                                          testing::Values(Reference::kByRows, Reference::kByRowsSlowly)),
                         [](const auto& one) { return std::get<0>(one.param).name + Name(std::get<1>(one.param)); });

struct Named {
  at::Tensor values, twice;
  bool is_due = false;
};

// Of a kernel whose operands do not say which of them it reads; `read` gives its result.
Outcome RunNamed(const std::function<void(Named&)>& kernel, const std::function<at::Tensor(Named&)>& read) {
  FakeDevice device;
  device.roof_rate = 1e18;
  const Family family = FamilyOf<Named>("twice", "twice = values + values")
                            .Size("n")
                            .Work([](const Point&) { return workload::CopyStream{4.0 * kRows * kCols}.Cost(); })
                            .Operands([](const Point&, Inputs& in) {
                              return Named{in.Randn({kRows, kCols}), in.Empty({kRows, kCols}, at::kFloat)};
                            })
                            .Impl("planted",
                                  [&](Named& o) {
                                    kernel(o);
                                    device.fake_clock.Advance(kHonestSeconds);
                                  })
                            .Result([read](Named& o) { return read(o); })
                            .Reference([](const Named& o, const RowRange& rows) { return rows.Of(o.values).mul_(2); })
                            .Points(Suite::kQuick, {{"n", {1}}})
                            .Finish();
  RunOptions options;
  options.reference = "a100-sxm4-40gb";
  return Session(options, device, {PlannedOf(family, {{"cache", kWarm}})}, nullptr).Run(0);
}

TEST(NamedOperands, AreChangedAsWell) {
  const auto work = [](Named& o) { at::add_out(o.twice, o.values, o.values); };
  const auto read = [](Named& o) { return o.twice; };
  const Outcome honest = RunNamed(work, read);
  EXPECT_EQ(honest.verdict, Verdict::kMeasured) << honest.reason;
  int calls = 0;
  const Outcome stops = RunNamed([&](Named& o) { calls++ < 3 ? work(o) : void(); }, read);
  ASSERT_EQ(stops.verdict, Verdict::kFailed);
  EXPECT_THAT(stops.reason, HasSubstr(kWrong));
}

TEST(Results, AreWhatTheStepLeft) {
  const Outcome later = RunNamed([](Named& o) { o.is_due = true; },
                                 [](Named& o) {
                                   if (std::exchange(o.is_due, false)) at::add_out(o.twice, o.values, o.values);
                                   return o.twice;
                                 });
  ASSERT_EQ(later.verdict, Verdict::kFailed);
  EXPECT_THAT(later.reason, HasSubstr("its work is not in the step"));
}

struct SampledOperands {
  at::Tensor x, y, rows;
};

// Of a kernel that is checked by a sample of rows, and by the sums of all.
Outcome RunSampled(const std::function<void(SampledOperands&)>& kernel) {
  FakeDevice device;
  device.roof_rate = 1e18;
  const Family family =
      FamilyOf<SampledOperands>("twice", "y = x + x")
          .Size("n")
          .Work([](const Point&) { return workload::CopyStream{4.0 * kRows * kCols}.Cost(); })
          .Operands([](const Point&, Inputs& in) {
            return SampledOperands{in.Randn({kRows, kCols}), in.Empty({kRows, kCols}, at::kFloat),
                                   in.SampleRows(kRows, kRows / 4)};
          })
          .Impl("planted",
                [&](SampledOperands& o) {
                  kernel(o);
                  device.fake_clock.Advance(kHonestSeconds);
                })
          .RowSums([](const SampledOperands& o) { return ExactRowSums(o.x).mul_(2); })
          .Reference([](const SampledOperands& o) { return o.x.index_select(0, o.rows).to(at::kDouble).mul_(2); })
          .Points(Suite::kQuick, {{"n", {1}}})
          .Finish();
  RunOptions options;
  options.reference = "a100-sxm4-40gb";
  return Session(options, device, {PlannedOf(family, {{"cache", kWarm}})}, nullptr).Run(0);
}

TEST(SampledRows, AreOthersWhereAStepIsChecked) {
  const auto honest = [](SampledOperands& o) { at::add_out(o.y, o.x, o.x); };
  for (int run = 0; run < 10; ++run) {
    const Outcome outcome = RunSampled(honest);
    ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  }
  const Outcome known = RunSampled([](SampledOperands& o) {
    o.y.zero_().select(1, 0).copy_(o.x.sum(1, false, at::kDouble).mul_(2));
    o.y.index_copy_(0, o.rows, o.x.index_select(0, o.rows).mul_(2));
  });
  ASSERT_EQ(known.verdict, Verdict::kFailed);
  EXPECT_THAT(known.reason, HasSubstr(kWrong));
}

// An element of a result that was overwritten already must not be right by being overwritten again.
TEST(OverwrittenIntegers, AccuseNoHonestStep) {
  constexpr int64_t kPattern = 0x0123456789abcdef;
  constexpr int64_t kElements = 1 << 18;
  FakeDevice device;
  device.roof_rate = 1e18;
  const Family family = FamilyOf<Operands>("fill", "y = a pattern")
                            .Size("n")
                            .Work([](const Point&) { return workload::WriteStream{8.0 * kElements}.Cost(); })
                            .Operands([](const Point&, Inputs& in) {
                              return Operands{in.Empty({1}, at::kFloat), in.Empty({kElements}, at::kLong)};
                            })
                            .Changing([](const Operands&) { return std::vector<at::Tensor>(); })
                            .Impl("planted",
                                  [&device](Operands& o) {
                                    o.y.fill_(kPattern);
                                    device.fake_clock.Advance(1e-6);
                                  })
                            .Reference([](const Operands& o) { return at::full_like(o.y, kPattern); })
                            .Points(Suite::kQuick, {{"n", {1}}})
                            .Finish();
  RunOptions options;
  options.reference = "a100-sxm4-40gb";
  for (int run = 0; run < 8; ++run) {
    const Outcome outcome = Session(options, device, {PlannedOf(family, {{"cache", kWarm}})}, nullptr).Run(0);
    ASSERT_EQ(outcome.verdict, Verdict::kMeasured) << outcome.reason;
  }
}

// Rows that a case of `rows` has had references of, and its whole references, by the checks of single steps.
struct Asked {
  int64_t rows = 0;
  int wholes = 0;
};

Asked AskedInTheEnd(bool by_rows, double check_seconds) {
  constexpr int64_t kMany = 4096;
  Asked asked;
  at::Tensor x = at::randn({kMany, 64});
  at::Tensor y = at::add(x, x);
  BuiltCase built;
  Case one = {.step = [&] { at::add_out(y, x, x); },
              .result = [&] { return std::vector{y}; },
              .changing = [&] { return std::vector{x}; }};
  if (by_rows) {
    one.reference_rows = [&](const RowRange& rows) {
      asked.rows += rows.count;
      return rows.Of(x).mul_(2);
    };
  } else {
    one.reference = [&] {
      ++asked.wholes;
      return std::vector{x.to(at::kDouble).mul_(2)};
    };
  }
  built.copies.push_back(one);
  built.check_seconds = check_seconds;
  SpotChecks checks(built, [&] { return &built.first(); });
  FakeDevice device;
  timing::Samples samples;
  samples.seconds = {1};
  samples.chunks = {{.samples = 1, .median_seconds = 1}};
  checks.Finish(
      device.clock(), [&](timing::PhaseMarker& marker) { one.step(marker); }, 0, samples);
  EXPECT_TRUE(checks.status().ok()) << checks.status();
  return asked;
}

TEST(SingleSteps, AreCheckedInPartWhereTheWholeTakesLongerThanItsShare) {
  EXPECT_LT(AskedInTheEnd(/*by_rows=*/true, /*check_seconds=*/1e3).rows, 4096);
  EXPECT_GT(AskedInTheEnd(/*by_rows=*/true, /*check_seconds=*/1e3).rows, 0);
  EXPECT_GE(AskedInTheEnd(/*by_rows=*/true, /*check_seconds=*/0).rows, 4096);
}

TEST(SingleSteps, AreCheckedAsAWholeWhereThereIsNoOtherWay) {
  EXPECT_GE(AskedInTheEnd(/*by_rows=*/false, /*check_seconds=*/1e3).wholes, 1);
}

// What is said of a case of so many elements whose steps of a millisecond take 1.6 ms after a look.
std::string AfterSlowSteps(int64_t elements) {
  const at::Tensor x = at::randn({elements / 64, 64});
  const at::Tensor y = at::empty_like(x);
  BuiltCase built;
  built.copies.push_back({.step = [&](timing::PhaseMarker&) { y.copy_(x); },
                          .result = [&] { return std::vector{y}; },
                          .reference_rows = [&](const RowRange& rows) { return rows.Of(x); },
                          .changing = [&] { return std::vector{x}; }});
  SpotChecks checks(built, [&] { return &built.first(); });
  FakeDevice device;
  timing::Samples samples;
  samples.chunks = {{.samples = 1000, .median_seconds = 1}};  // enough for any number of looks
  for (int step = 0; step < 100; ++step) {
    y.copy_(x);
    checks.Look(samples);
    const bool was_overwritten = y.isnan().any().item<bool>();
    y.copy_(x);
    samples.seconds.push_back(was_overwritten ? 1.6e-3 : 1e-3);
  }
  checks.Finish(
      device.clock(), [&](timing::PhaseMarker& marker) { built.first().step(marker); }, 0, samples);
  EXPECT_TRUE(checks.status().ok()) << checks.status();
  return checks.depends_on_values();
}

TEST(WatchedSamples, MemoryThatALookMovesIsNotTakenForWork) {
  EXPECT_THAT(AfterSlowSteps(int64_t{1} << 16), HasSubstr(kSlower));
  EXPECT_EQ(AfterSlowSteps(int64_t{1} << 21), "") << "0.6 ms are those of 16 MiB";
}

}  // namespace
}  // namespace roofbench
