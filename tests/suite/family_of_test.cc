// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/family_of.h"

#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/suite/check.h"
#include "lib/workload/operators/elementwise.h"
#include "tests/device/fake_device.h"
#include "tests/suite/run_once.h"

namespace roofbench {

// A third-party kernel: y = x.
template <typename T>
struct Copying {
  const T* x;
  T* y;
  int64_t n;
};
template <typename T>
void Run(const Copying<T>& work, const kernels::ParallelFor&) {
  for (int64_t i = 0; i < work.n; ++i) work.y[i] = work.x[i];
}

namespace {

using testing::HasSubstr;

struct Vectors {
  at::Tensor x, y;
  std::shared_ptr<int> life = std::make_shared<int>(0);
};

FamilyOf<Vectors> Double() {
  FamilyOf<Vectors> family("double", "y = 2 x");
  family.Size("n")
      .Work([](const Point& at) { return workload::CopyStream{at.Number("n") * 4}.Cost(); })
      .Operands([](const Point& at, Inputs& in) {
        return Vectors{in.Randn({at.Int("n")}), in.Empty({at.Int("n")}, workload::Dtype::kFp32)};
      })
      .Reference([](const Vectors& o) { return o.x.to(at::kDouble) * 2; })
      .Impl("eager", [](Vectors& o) { at::mul_out(o.y, o.x, at::full({}, 2)); })
      .Points(Suite::kQuick, {{"n", {16, 1_Ki}}});
  return family;
}

class FamilyOfTest : public testing::Test {
 protected:
  // Builds the first point with these values and runs one step of it.
  absl::StatusOr<Case> Build(const Family& family, const AxisValues& values = {}) {
    Point point = family.Points().front();
    for (const auto& [axis, value] : values) point = point.With(axis, value);
    if (absl::Status status = family.SupportOf(point, device_); !status.ok()) return status;
    Inputs inputs(device_, 0, point.Name());
    return family.BuildAt(point, inputs);
  }
  static bool IsRight(const Case& built) {
    RunOnce(built);
    return CheckCase(built).ok();
  }

  FakeDevice device_;
};

TEST_F(FamilyOfTest, SizesAreNumbersInTheCodeAndOneImplementationIsNoAxis) {
  const Family family = Double().Finish();
  ASSERT_EQ(family.Points(Suite::kQuick).size(), 2);
  EXPECT_EQ(family.Points(Suite::kQuick)[1].Name(), "double/n:1024");
  EXPECT_TRUE(IsRight(*Build(family)));
}

TEST_F(FamilyOfTest, ImplementationsAreTheFirstAxis) {
  const Family family = Double().Impl("wrong", [](Vectors& o) { o.y.copy_(o.x); }).DefaultImpl("eager").Finish();
  EXPECT_EQ(family.axes().front().name, kImplAxis);
  EXPECT_EQ(family.Points(Suite::kQuick)[0].Name(), "double/n:16") << "the default is left out";
  EXPECT_TRUE(IsRight(*Build(family)));
  EXPECT_FALSE(IsRight(*Build(family, {{kImplAxis, "wrong"}})));
}

TEST_F(FamilyOfTest, AStepReplacesNoOperandsOfTheReference) {
  const Family family = Double()
                            .Impl("replacing",
                                  [](Vectors& o) {
                                    o.x = at::zeros_like(o.x);
                                    o.y = o.x * 2;
                                  })
                            .Impl("setting",
                                  [](Vectors& o) {
                                    o.x.set_data(at::zeros_like(o.x));
                                    o.y = o.x * 2;
                                  })
                            .Impl("new result", [](Vectors& o) { o.y = o.x * 2; })
                            .DefaultImpl("eager")
                            .Finish();
  for (const char* impl : {"replacing", "setting"}) {
    const absl::StatusOr<Case> built = Build(family, {{kImplAxis, impl}});
    RunOnce(*built);
    EXPECT_THAT(CheckCase(*built).message(), HasSubstr("another tensor into the place of an operand")) << impl;
  }
  EXPECT_TRUE(IsRight(*Build(family, {{kImplAxis, "new result"}})));
}

TEST_F(FamilyOfTest, ACaseOwnsItsOperands) {
  std::weak_ptr<int> life;
  {
    absl::StatusOr<Case> built = absl::InternalError("none yet");
    {
      const Family family =
          Double().Details([&](const Point&, const std::shared_ptr<Vectors>& o, Case&) { life = o->life; }).Finish();
      built = Build(family);
    }
    ASSERT_TRUE(built.ok()) << built.status();
    EXPECT_FALSE(life.expired());
    const CaseStep step = built->step;
    built = absl::InternalError("gone");
    EXPECT_FALSE(life.expired()) << "a step keeps what it works on";
  }
  EXPECT_TRUE(life.expired());
}

TEST_F(FamilyOfTest, AKernelIsMadeForTheElementsOfTheDtype) {
  const Family family = FamilyOf<Vectors>("native", "y = x")
                            .Dtypes({"fp32", "bf16"})
                            .Size("n")
                            .Work([](const Point&) { return workload::Cost{}; })
                            .Operands([](const Point& at, Inputs& in) {
                              return Vectors{in.Randn({at.Int("n")}, at.Dtype()), in.Empty({at.Int("n")}, at.Dtype())};
                            })
                            .Reference([](const Vectors& o) { return o.x.to(at::kDouble); })
                            .Impl("native", Cpu([]<typename T>(Vectors& o) {
                                    return Copying<T>{Elements<T>(o.x), Elements<T>(o.y), o.x.numel()};
                                  }))
                            .Points(Suite::kQuick, {{"dtype", {"fp32", "bf16"}}, {"n", {7}}})
                            .Finish();
  for (const char* dtype : {"fp32", "bf16"}) EXPECT_TRUE(IsRight(*Build(family, {{kDtypeAxis, dtype}}))) << dtype;
}

TEST_F(FamilyOfTest, APreparationRunsOnceAndItsCompileTimesAreFigures) {
  int prepared = 0;
  const Family family =
      Double()
          .Impl("packed", Prepared([&](Vectors& o, const Point&, Inputs& in) {
                  ++prepared;
                  in.AddCompiled({.packages = 1, .made = 1, .made_seconds = 1.5, .load_seconds = 0.25});
                  in.AddCompiled({.packages = 1, .made_seconds = 0.5, .load_seconds = 0.5});
                  return [twice = o.x * 2](Vectors& now) { now.y.copy_(twice); };
                }))
          .Finish();
  const auto built = Build(family, {{kImplAxis, "packed"}});
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_TRUE(IsRight(*built));
  RunOnce(*built);
  EXPECT_EQ(prepared, 1);
  std::map<std::string, double> figures;
  for (const auto& [name, value] : built->figures) figures[name] = value();
  EXPECT_EQ(figures,
            (std::map<std::string, double>{{"compile_ms", 2000}, {"package_load_ms", 750}, {"recompiles", 1}}));
  EXPECT_TRUE(Build(family, {{kImplAxis, "eager"}})->figures.empty());
}

TEST_F(FamilyOfTest, FailedPreparationsAndOperandsEndTheCase) {
  const Family unpacked = Double()
                              .Impl("packed", Prepared([](Vectors&, const Point&, Inputs&) -> absl::StatusOr<CaseStep> {
                                      return absl::UnimplementedError("no packer");
                                    }))
                              .Finish();
  EXPECT_EQ(Build(unpacked, {{kImplAxis, "packed"}}).status(), absl::UnimplementedError("no packer"));
  const Family unmade = Double()
                            .Operands([](const Point&, Inputs&) -> absl::StatusOr<Vectors> {
                              return absl::UnimplementedError("no model");
                            })
                            .Finish();
  EXPECT_EQ(Build(unmade).status(), absl::UnimplementedError("no model"));
}

TEST_F(FamilyOfTest, AnImplementationSaysWhereItRuns) {
  const Family family = Double()
                            .Impl("cuda", OnGpu({}, [](Vectors&, const Point&, Inputs&) { return [] {}; }))
                            .Limits("it is a GPU's")
                            .Graph()
                            .Finish();
  EXPECT_THAT(Build(family, {{kImplAxis, "cuda"}}).status().message(), HasSubstr("impl:cuda runs on GPUs alone"));
  EXPECT_THAT(Build(family, {{kImplAxis, "cuda"}}).status().message(), HasSubstr("it is a GPU's"));
  EXPECT_THAT(Build(family, {{kImplAxis, "graph"}}).status().message(), HasSubstr("CUDA graphs need a GPU"));
  EXPECT_TRUE(IsRight(*Build(family, {{kImplAxis, "eager"}})));
}

TEST_F(FamilyOfTest, AnImplementationSaysWhichDtypesOrFormatsItTakes) {
  for (const char* axis : {kDtypeAxis, kPrecisionAxis}) {
    const Family family = FamilyOf<Vectors>("typed", "y = 2 x")
                              .Axis({.name = axis, .choices = {"int8", "bf16"}})
                              .Work([](const Point&) { return workload::Cost{}; })
                              .Operands([](const Point&, Inputs&) { return Vectors{}; })
                              .Impl("eager", [](Vectors&) {})
                              .Impl("packed", [](Vectors&) {})
                              .Takes({"bf16"}, "it packs floats")
                              .Points(Suite::kQuick, {{axis, {"int8", "bf16"}}})
                              .Finish();
    EXPECT_THAT(Build(family, {{kImplAxis, "packed"}}).status().message(),
                HasSubstr(absl::StrCat("impl:packed is for ", axis, ":bf16: it packs floats")));
    EXPECT_TRUE(Build(family, {{kImplAxis, "packed"}, {axis, "bf16"}}).ok());
  }
}

TEST_F(FamilyOfTest, APassHasStepsOfItsOwn) {
  FamilyOf<Vectors> declared = Double();
  declared.Passes({kForward, kBackward})
      .Impl("apart", InPass(kBackward, [](Vectors& o) { o.y.copy_(o.x * 3); }),
            InPass(kForward, OnCpu([](Vectors& o) { o.y.copy_(o.x * 2); })))
      .Impl("half", InPass(kForward, [](Vectors&) {}));
  const Family family = declared.Finish();
  EXPECT_TRUE(IsRight(*Build(family, {{kImplAxis, "apart"}})));
  EXPECT_FALSE(IsRight(*Build(family, {{kImplAxis, "apart"}, {kPassAxis, kBackward}}))) << "the reference is forward's";
  EXPECT_TRUE(Build(family, {{kImplAxis, "half"}}).ok());
  EXPECT_THAT(Build(family, {{kImplAxis, "half"}, {kPassAxis, kBackward}}).status().message(),
              HasSubstr("impl:half has no pass:backward on processors"));
}

TEST_F(FamilyOfTest, KernelsBelongToTheImplementationNamedLast) {
  const Family family = Double().Impl("stream", [](Vectors&) {}).Impl("eager").Launches({"CopyStream"}).Finish();
  EXPECT_THAT(family.implementations()[0].kernels, testing::ElementsAre("CopyStream"));
  EXPECT_THAT(family.implementations()[1].kernels, testing::IsEmpty());
}

}  // namespace
}  // namespace roofbench
