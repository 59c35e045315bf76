// SPDX-License-Identifier: Apache-2.0
// Declares a family in a benchmark file: its work, operands, implementations and points.
//
//   struct Operands { at::Tensor x, y; };
//
//   const Registration kGelu =
//       FamilyOf<Operands>("gelu", "y = GELU(x), element by element")
//           .Dtypes({kFp32, kBf16})
//           .Size("elements")
//           .Work([](const Point& at) { return workload::Gelu{at.Number("elements"), at.Dtype()}; })
//           .Operands([](const Point& at, Inputs& in) { … return Operands{x, y}; })
//           .Reference([](const Operands& o) { return at::gelu(o.x.to(at::kDouble)); })
//           .Impl("eager", [](Operands& o) { at::gelu_out(o.y, o.x); })
//           .Impl("native", Cpu([]<typename T>(Operands& o) { return kernels::Gelu<T>{…}; }))
//           .Points(Suite::kQuick, {{"elements", {16_Mi}}});
//
// The axis `impl` comes first in a name, then the others in the order of declaration, then `cache`. The case owns its
// operands and passes them to an implementation's callables by reference.
#pragma once

#include <concepts>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/suite/check.h"
#include "lib/suite/family.h"
#include "lib/suite/steps/bindings.h"
#include "lib/suite/steps/gpu_step.h"

namespace roofbench {

template <typename O>
class FamilyOf {
 public:
  FamilyOf(std::string name, std::string doc) : parts_{.name = std::move(name), .doc = std::move(doc)} {}

  // Axes.

  FamilyOf& Dtypes(const AxisList& values, const std::string& doc = {}, AxisValue default_value = {}) {
    return Axis(SharedAxis(kDtypeAxis, values.texts(), default_value.text, doc));
  }
  FamilyOf& Precisions(const AxisList& values, const std::string& doc = {}) {
    return Axis(SharedAxis(kPrecisionAxis, values.texts(), {}, doc));
  }
  // The first value is the default.
  FamilyOf& Passes(const AxisList& values, const std::string& doc = {}) {
    return Axis(SharedAxis(kPassAxis, values.texts(), values.texts().front(), doc));
  }
  // An integer from 1. The default may name another axis, whose value it then takes.
  FamilyOf& Size(std::string name, std::string doc = {}, AxisValue default_value = {}) {
    return Axis({.name = std::move(name), .default_value = std::move(default_value.text), .doc = std::move(doc)});
  }
  // Any number from 0.
  FamilyOf& Number(std::string name, std::string doc = {}, AxisValue default_value = {}) {
    return Axis({.name = std::move(name),
                 .default_value = std::move(default_value.text),
                 .doc = std::move(doc),
                 .fractions = true});
  }
  FamilyOf& Choice(std::string name, const AxisList& values, std::string doc = {}, AxisValue default_value = {}) {
    return Axis({.name = std::move(name),
                 .choices = values.texts(),
                 .default_value = std::move(default_value.text),
                 .doc = std::move(doc)});
  }
  // The number of threads of the run that the step uses, where it can use fewer: ThreadsAt.
  FamilyOf& Threads() {
    AxisSpec axis = SharedAxis(kThreadsAxis, {}, "0");
    axis.fractions = true;
    return Axis(std::move(axis));
  }
  FamilyOf& Axis(AxisSpec axis) { return parts_.axes.push_back(std::move(axis)), *this; }
  // Axes that several families share.
  FamilyOf& Axes(const std::vector<AxisSpec>& axes) {
    parts_.axes.insert(parts_.axes.end(), axes.begin(), axes.end());
    return *this;
  }
  // The value of `impl` that is omitted from names.
  FamilyOf& DefaultImpl(std::string name) { return parts_.default_impl = std::move(name), *this; }
  FamilyOf& DefaultCache(std::string value) { return parts_.default_cache = std::move(value), *this; }

  // Work and operands.

  // Closed-form work of one step, and its memory requirement. A shape with a ForwardCost() can stand for both.
  template <std::invocable<const Point&> Function>
  FamilyOf& Work(Function work) {
    parts_.cost = [work = std::move(work)](const Point& at) -> workload::Cost {
      if constexpr (requires { work(at).ForwardCost(); }) {
        return work(at).ForwardCost();
      } else {
        return work(at);
      }
    };
    return *this;
  }
  // Makes the operands of a case; it may return an absl::StatusOr of them. Called again for every cold copy: `Inputs`
  // then returns clones.
  template <std::invocable<const Point&, Inputs&> Function>
  FamilyOf& Operands(Function make) {
    make_ = [make = std::move(make)](const Point& at, Inputs& in) -> absl::StatusOr<Shared> {
      auto made = make(at, in);
      if constexpr (std::is_constructible_v<O, decltype(made)&&>) {
        return std::make_shared<O>(std::move(made));
      } else {
        if (!made.ok()) return made.status();
        return std::make_shared<O>(*std::move(made));
      }
    };
    return *this;
  }
  // The result of the last step: one tensor or several. Default: operands.y, restricted to the rows operands.rows if
  // that member exists; in that case the default of Whole is operands.y.
  template <typename Function>
  FamilyOf& Result(Function result) {
    return result_ = Tensors(std::move(result)), *this;
  }
  // The result in a higher precision. It may use the operands as they are after the steps, and free those that nothing
  // else needs. A function of (O&, const RowRange&) computes those rows alone: Case::reference_rows.
  template <typename Function>
  FamilyOf& Reference(Function reference) {
    if constexpr (std::invocable<Function&, O&, const RowRange&>) {
      reference_rows_ = std::move(reference);
    } else {
      reference_ = Tensors(std::move(reference));
    }
    return *this;
  }
  // The reference, rounded between its operations: Case::rounded.
  template <typename Function>
  FamilyOf& Rounded(Function rounded) {
    return rounded_ = Tensors(std::move(rounded)), *this;
  }
  // If the result is a sample: the whole result, in which a NaN or an infinity fails the check.
  template <typename Function>
  FamilyOf& Whole(Function whole) {
    return whole_ = Tensors(std::move(whole)), *this;
  }
  // The sums of the rows of Whole, in double precision.
  template <typename Function>
  FamilyOf& RowSums(Function sums) {
    return row_sums_ = Tensors(std::move(sums)), *this;
  }
  // Operands whose values may change between steps, which then give another result: Case::changing. Default: operands.x
  // where there are operands.x and operands.y; otherwise, where rows have a reference of their own, all floating-point
  // ones from Inputs that are no part of the result. Return nothing where an implementation makes something of them
  // beforehand (a packed x): then the result is overwritten alone.
  template <typename Function>
  FamilyOf& Changing(Function changing) {
    return changing_ = Tensors(std::move(changing)), *this;
  }
  // Default: one rounding to the axis dtype, or to fp32 without that axis.
  FamilyOf& Within(std::function<Tolerance(const Point&)> tolerance) {
    return tolerance_ = std::move(tolerance), *this;
  }
  // One for each result.
  FamilyOf& WithinEach(std::function<std::vector<Tolerance>(const Point&)> tolerances) {
    return tolerances_ = std::move(tolerances), *this;
  }
  // Sets further members of a case: phases, figures, parameters, and its work in terms of a model.
  FamilyOf& Details(std::function<void(const Point&, const std::shared_ptr<O>&, Case&)> details) {
    return details_ = std::move(details), *this;
  }

  // Implementations.

  // Adds a value of the axis `impl`: one binding for every device, one for processors and one for GPUs, or one per
  // pass. A callable that takes (O&) or (O&, timing::PhaseMarker&) is the step itself. A second call with the same name
  // adds bindings to the first.
  template <typename... Bindings>
  FamilyOf& Impl(const std::string& name, Bindings... bindings) {
    Row& row = RowNamed(name);
    (Add(row, Bind<O>(std::move(bindings))), ...);
    return *this;
  }
  // `impl:graph`: the steps of `eager` recorded as a CUDA graph.
  FamilyOf& Graph(const std::string& eager = "eager");
  // For the implementation named last: the values of `dtype` (or `precision`) that it takes, and the reason for
  // excluding others.
  FamilyOf& Takes(const AxisList& dtypes, std::string reason) {
    rows_[last_].description.dtypes = dtypes.texts();
    return Limits(std::move(reason));
  }
  FamilyOf& Limits(std::string reason) { return rows_[last_].description.limits = std::move(reason), *this; }
  // For the implementation named last: further conditions for running a point on a device.
  FamilyOf& When(SupportFunction supports) { return rows_[last_].supports = std::move(supports), *this; }
  // For the implementation named last: our GPU kernels that its step launches without declaring them in a Cuda().
  FamilyOf& Launches(std::vector<std::string_view> kernels) {
    return rows_[last_].description.kernels = std::move(kernels), *this;
  }

  // As Launches, but for some points only.
  FamilyOf& LaunchesAt(std::function<std::vector<std::string_view>(const Point&)> kernels) {
    return rows_[last_].description.kernels_at = std::move(kernels), *this;
  }

  // Points and expectations.

  // Adds the product of the lists to `suite` and every one that contains it. An axis without a list takes its default.
  FamilyOf& Points(Suite suite, GridAxes axes) { return parts_.grids.emplace_back(suite, std::move(axes)), *this; }
  // Time is expected to grow as axis^exponent.
  FamilyOf& Growth(std::string axis, double exponent) {
    return parts_.growth.push_back({std::move(axis), exponent}), *this;
  }
  FamilyOf& Supports(SupportFunction supports) { return parts_.supports = std::move(supports), *this; }
  // Those of FamilyParts.
  FamilyOf& LongSteps(double seconds) { return parts_.long_step = seconds, *this; }
  FamilyOf& PredictAs(PointFunction other) { return parts_.predict_as = std::move(other), *this; }

  // The family as stored in the program's table.
  Family Finish() const;

 private:
  using Shared = std::shared_ptr<O>;

  struct Row {
    Implementation description;
    std::vector<BoundStep<O>> steps = {};
    SupportFunction supports = {};
    bool is_graph = false;

    // The step for a point on such a device; nullptr if there is none.
    const BoundStep<O>* StepAt(const Point& at, bool on_gpu) const {
      for (const BoundStep<O>& step : steps) {
        if ((on_gpu ? step.on_gpu : step.on_cpu) && (step.pass.empty() || step.pass == at.Text(kPassAxis)))
          return &step;
      }
      return nullptr;
    }
  };

  using TensorsOf = std::function<std::vector<at::Tensor>(O&)>;
  static std::vector<at::Tensor> AsTensors(at::Tensor tensor) { return {std::move(tensor)}; }
  static std::vector<at::Tensor> AsTensors(std::vector<at::Tensor> tensors) { return tensors; }
  template <typename Function>
  static TensorsOf Tensors(Function function) {
    return [function = std::move(function)](O& o) { return AsTensors(function(o)); };
  }

  Row& RowNamed(const std::string& name) {
    for (last_ = 0; last_ < rows_.size(); ++last_) {
      if (rows_[last_].description.name == name) return rows_[last_];
    }
    rows_.push_back({.description = {.name = name}});
    return rows_.back();
  }

  static void Add(Row& row, BoundStep<O> step) {
    Implementation& description = row.description;
    description.on_cpu |= step.on_cpu;
    description.on_gpu |= step.on_gpu;
    description.kernels.insert(description.kernels.end(), step.kernels.begin(), step.kernels.end());
    row.steps.push_back(std::move(step));
  }

  // The row of a point: the only row if there is just one.
  const Row& RowAt(const Point& at) const {
    if (!at.Has(kImplAxis)) return rows_.front();
    for (const Row& row : rows_) {
      if (row.description.name == at.Text(kImplAxis)) return row;
    }
    throw std::logic_error("no implementation " + at.Text(kImplAxis));
  }

  absl::Status SupportAt(const Point& at, const Device& device) const;
  absl::StatusOr<Case> BuildAt(const Point& at, Inputs& in) const;

  FamilyParts parts_;  // all but its implementations and build; `supports`: of all implementations
  std::function<absl::StatusOr<Shared>(const Point&, Inputs&)> make_;
  TensorsOf result_, reference_, rounded_, whole_, row_sums_, changing_;
  std::function<at::Tensor(O&, const RowRange&)> reference_rows_;
  std::function<Tolerance(const Point&)> tolerance_;
  std::function<std::vector<Tolerance>(const Point&)> tolerances_;
  std::function<void(const Point&, const Shared&, Case&)> details_;
  std::vector<Row> rows_;
  std::size_t last_ = 0;  // index in rows_ of the implementation named last
};

template <typename O>
FamilyOf<O>& FamilyOf<O>::Graph(const std::string& eager) {
  const std::vector<BoundStep<O>> steps = RowNamed(eager).steps;
  Row& row = RowNamed("graph");
  for (BoundStep<O> step : steps) {
    step.on_cpu = false;
    if (step.on_gpu) Add(row, std::move(step));
  }
  row.is_graph = true;
  return Limits("CUDA graphs need a GPU; impl:" + eager + " is the same work, launched one by one");
}

template <typename O>
Family FamilyOf<O>::Finish() const {
  FamilyParts parts = parts_;
  for (const Row& row : rows_) parts.implementations.push_back(row.description);
  const auto declared = std::make_shared<const FamilyOf>(*this);
  parts.supports = [declared](const Point& at, const Device& device) { return declared->SupportAt(at, device); };
  if (make_ && !rows_.empty()) {
    parts.build = [declared](const Point& at, Inputs& in) { return declared->BuildAt(at, in); };
  }
  return parts;
}

template <typename O>
absl::Status FamilyOf<O>::SupportAt(const Point& at, const Device& device) const {
  const Row& row = RowAt(at);
  if (absl::Status status = SupportsImplementation(row.description, at, device); !status.ok()) return status;
  if (at.Has(kThreadsAxis)) {
    if (absl::Status status = SupportsThreads(at, device); !status.ok()) return status;
  }
  const bool on_gpu = device.gpu() != nullptr;
  const BoundStep<O>* const step = row.StepAt(at, on_gpu);
  if (step == nullptr) {
    return absl::UnimplementedError(absl::StrCat(kImplAxis, ":", row.description.name, " has no pass:",
                                                 at.Text(kPassAxis), " on ", on_gpu ? "GPUs" : "processors"));
  }
  for (const SupportFunction* const more : {on_gpu ? &step->gpu_supports : nullptr, &row.supports, &parts_.supports}) {
    if (more == nullptr || !*more) continue;
    if (absl::Status status = (*more)(at, device); !status.ok()) return status;
  }
  return absl::OkStatus();
}

template <typename O>
absl::StatusOr<Case> FamilyOf<O>::BuildAt(const Point& at, Inputs& in) const {
  const absl::StatusOr<Shared> operands = make_(at, in);
  if (!operands.ok()) return operands.status();
  Case built{.tolerance = tolerance_           ? tolerance_(at)
                          : at.Has(kDtypeAxis) ? Tolerance{.dtype = at.Dtype()}
                                               : Tolerance{},
             .tolerances = tolerances_ ? tolerances_(at) : std::vector<Tolerance>()};
  TensorsOf result = result_;
  TensorsOf whole = whole_;
  if constexpr (requires(const O& o) { o.y.index_select(0, o.rows); }) {
    if (!whole) whole = Tensors([](const O& o) { return o.y; });
    if (!result) result = Tensors([](const O& o) { return o.y.index_select(0, o.rows); });
  } else if constexpr (requires(const O& o) { AsTensors(o.y); }) {
    if (!result) result = Tensors([](const O& o) { return o.y; });
  }
  TensorsOf changing = changing_;
  if constexpr (requires(const O& o) { AsTensors(o.x), AsTensors(o.y); }) {
    if (!changing) changing = Tensors([](const O& o) { return o.x; });
  }
  const auto bind = [&](const TensorsOf& of, std::function<std::vector<at::Tensor>()>& member) {
    if (of) member = [of, o = *operands] { return of(*o); };
  };
  built.keeps_operands = KeepsOperands(*operands, sizeof(O), in.OfThisCopy());
  bind(result, built.result);
  bind(reference_, built.reference);
  if (reference_rows_) {
    built.reference_rows = [of = reference_rows_, o = *operands](const RowRange& rows) { return of(*o, rows); };
  }
  bind(rounded_, built.rounded);
  bind(whole, built.whole);
  bind(row_sums_, built.row_sums);
  bind(changing, built.changing);
  if (details_) details_(at, *operands, built);
  if (!built.changing && built.reference_rows) built.changing = ReadOnly(in.OfThisCopy(), built);
  const Row& row = RowAt(at);
  absl::StatusOr<CaseStep> step = row.StepAt(at, in.device().gpu() != nullptr)->make(at, *operands, in);
  if (!step.ok()) return step.status();
  built.step = *std::move(step);
  if (const CompileTimes& compiled = in.compiled(); compiled.packages > 0) {
    if (compiled.made_seconds > 0) built.AddFigure("compile_ms", 1e3 * compiled.made_seconds);
    built.AddFigure("package_load_ms", 1e3 * compiled.load_seconds);
    built.AddFigure("recompiles", compiled.made);
  }
  if (row.is_graph) return Graphed(std::move(built), in.device());
  return built;
}

}  // namespace roofbench
