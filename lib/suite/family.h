// SPDX-License-Identifier: Apache-2.0
// A family: one kind of work, its axes, and the points at which it is measured.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/suite/case.h"
#include "lib/suite/implementation.h"
#include "lib/suite/inputs.h"
#include "lib/suite/point.h"
#include "lib/workload/cost.h"

namespace roofbench {

// Share of a family that a run takes. Each suite contains the previous one.
enum class Suite { kQuick, kStandard, kFull };
std::string_view Name(Suite suite);  // "quick", "standard", "full"

// The time of a step is expected to grow as axis^exponent with the other axes fixed.
struct ExpectedGrowth {
  std::string axis;
  double exponent;
};

// Values by axis; axes with a default may be omitted. The points are the product of the lists.
class AxisList {
 public:
  AxisList(std::initializer_list<AxisValue> values);  // NOLINT(google-explicit-constructor)
  AxisList(std::vector<std::string> values)           // NOLINT(google-explicit-constructor)
      : texts_(std::move(values)) {}
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
};
using GridAxes = std::vector<std::pair<std::string, AxisList>>;

class Family {
 public:
  using CostFunction = std::function<workload::Cost(const Point&)>;
  using BuildFunction = std::function<absl::StatusOr<Case>(const Point&, Inputs&)>;
  using SupportFunction = std::function<absl::Status(const Point&, const Device&)>;
  using PointFunction = std::function<Point(const Point&)>;

  // `doc` is one line for --list_axes.
  Family(std::string name, std::string doc);

  Family& Axis(AxisSpec axis);
  // Every family ends with the axis `cache`: cold (operands come from memory: the default) or warm (operands stay as
  // the last step left them). Macro families, whose steps reuse the state of the last one, default to warm.
  Family& DefaultCache(std::string value);
  // Adds the product of the lists to `suite` and every larger one.
  Family& Grid(Suite suite, GridAxes axes);
  // Steps of up to `seconds` are intended for this family: no suite omits them as too long.
  Family& LongSteps(double seconds);
  // Maps a point to one of another registered family with the same step and sizes that can be reduced: it predicts a
  // step's time if this family's axes are only names.
  Family& PredictAs(PointFunction other);
  Family& ExpectGrowth(std::string axis, double exponent);
  // Closed-form work of one step, and its memory requirement; called before anything is built.
  Family& Cost(CostFunction cost);
  // The rows of the axis `impl`, which becomes the first axis if there are two or more. The default, if any, is omitted
  // from names.
  Family& Implementations(std::vector<Implementation> implementations, const std::string& default_name);
  // Whether this device can run the point; a non-OK status becomes a skipped case with that reason.
  Family& Supports(SupportFunction supports);
  // Makes tensors and the step. Called again for every cold copy: `Inputs` then returns clones of the same data.
  Family& Build(BuildFunction build);

  const std::string& name() const { return name_; }
  const std::string& doc() const { return doc_; }
  const std::vector<AxisSpec>& axes() const { return *axes_; }
  const std::vector<ExpectedGrowth>& growth() const { return growth_; }
  const std::vector<Implementation>& implementations() const { return implementations_; }
  // The implementation of a point; nullptr if the family names none.
  const Implementation* ImplementationOf(const Point& point) const;
  double long_step() const { return long_step_; }
  const PointFunction& predict_as() const { return predict_as_; }

  // Reason why the family cannot be registered ("it has no Grid"); empty if there is none.
  std::string Problem() const;

  // The registered points up to `suite`, each once, in the order of the grids.
  std::vector<Point> Points(Suite suite) const;

  workload::Cost CostOf(const Point& point) const { return cost_(point); }
  absl::Status SupportOf(const Point& point, const Device& device) const;
  absl::StatusOr<Case> BuildAt(const Point& point, Inputs& inputs) const { return build_(point, inputs); }

 private:
  std::string name_;
  std::string doc_;
  // Shared with every point, so that the address survives a move of the family.
  std::shared_ptr<std::vector<AxisSpec>> axes_;
  std::vector<std::pair<Suite, GridAxes>> grids_;
  std::vector<ExpectedGrowth> growth_;
  std::vector<Implementation> implementations_;
  double long_step_ = 0;  // seconds
  PointFunction predict_as_;
  CostFunction cost_;
  SupportFunction supports_;
  BuildFunction build_;
};

// Adds a family to the program's table. At namespace scope:
//   const Registration kMine(Family("mine", "…").Axis(…).Grid(…).Cost(…).Build(…));
// A family without cost, build or points, a duplicate name, or a grid with an unknown axis or value stops the program
// at start with a message: it is an error in the program, not in its use.
class Registration {
 public:
  explicit Registration(Family family);
  // Accepts a FamilyOf.
  template <typename Declared>
  requires requires(const Declared& declared) { declared.Finish(); }
  Registration(const Declared& declared)  // NOLINT(google-explicit-constructor): reads as a declaration
      : Registration(declared.Finish()) {}
};

// All registered families, by name.
const std::vector<Family>& Families();
// Throws std::logic_error if no family has the name.
const Family& FamilyNamed(const std::string& name);

}  // namespace roofbench
