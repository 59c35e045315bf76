// SPDX-License-Identifier: Apache-2.0
// A family: one kind of work, its axes, its implementations, and the points at which it is measured. FamilyOf
// (family_of.h) declares one.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/cases/family_grid.h"
#include "lib/device/device.h"
#include "lib/suite/case.h"
#include "lib/suite/inputs.h"
#include "lib/workload/cost.h"

namespace roofbench {

// Verification of an implementation on a kind of device. kChecked: every run compares its results with a reference.
// kUnverified: it launches kernels that no GPU has run yet; kEmulated: the same, but they ran in an emulation.
enum class Proof { kNone, kUnverified, kEmulated, kChecked };
std::string_view Name(Proof proof);  // "none", "unverified", "emulated", "checked"

// One implementation of a family's work: where it runs, and how far it is verified.
struct Implementation {
  std::string name;      // a value of the axis `impl`
  std::string doc = {};  // empty: that of other families' implementations of this name, such as "eager"
  bool on_cpu = false;
  bool on_gpu = false;
  // GPU kernels that our code launches: __global__ functions, or other rows of lib/device/unverified.cc.
  std::vector<std::string_view> kernels = {};
  // Further kernels that only some points launch; nullptr: none.
  std::function<std::vector<std::string_view>(const Point&)> kernels_at = {};
  // The accepted values of `dtype`, or of `precision` in a family without that axis; empty: all of the family's.
  std::vector<std::string> dtypes = {};
  // Explanation of its limits, for users; empty if there is none.
  std::string limits = {};

  Proof CpuProof() const;
  Proof GpuProof() const;
};

// Whether the implementation supports the device's kind and the point's dtype; a non-OK status lists the supported
// alternatives.
absl::Status SupportsImplementation(const Implementation& implementation, const Point& point, const Device& device);

// Whether the run has as many threads as the axis `threads` of a point asks for; and that number.
absl::Status SupportsThreads(const Point& point, const Device& device);
int ThreadsAt(const Point& point, const Device& device);

// Returns Unimplemented if the implementation would launch kernels that no GPU has run yet.
absl::Status CheckVerified(const Implementation& implementation, const Point& point, const Device& device);

using PointFunction = std::function<Point(const Point&)>;
using SupportFunction = std::function<absl::Status(const Point&, const Device&)>;

struct FamilyParts {
  std::string name;
  std::string doc = {};  // one line for --list_axes
  // Without `impl`, which comes first if there are two implementations or more, and `cache`, which comes last.
  std::vector<AxisSpec> axes = {};
  std::vector<Implementation> implementations = {};
  std::string default_impl = {};  // omitted from names; empty: none
  // Operands come from memory (kCold) or stay as the last step left them (kWarm: families whose steps reuse the state
  // of the last one).
  std::string default_cache = kCold;
  std::vector<std::pair<Suite, GridAxes>> grids = {};  // as GridParts::grids
  std::vector<ExpectedGrowth> growth = {};
  // Steps of up to so many seconds are intended: no suite omits them as too long.
  double long_step = 0;
  // Maps a point to one of another registered family with the same step and sizes that can be reduced: it predicts a
  // step's time if this family's axes are only names.
  PointFunction predict_as = {};
  // Closed-form work of one step, and its memory requirement; called before anything is built.
  std::function<workload::Cost(const Point&)> cost = {};
  // Whether this device can run the point; a non-OK status becomes a skipped case with that reason.
  SupportFunction supports = {};
  // Makes tensors and the step. Called again for every cold copy: `Inputs` then returns clones of the same data.
  std::function<absl::StatusOr<Case>(const Point&, Inputs&)> build = {};
};

class Family : public FamilyGrid {
 public:
  Family(FamilyParts parts);  // NOLINT(google-explicit-constructor): complete parts are a family

  const std::vector<Implementation>& implementations() const { return parts_.implementations; }
  // The implementation of a point; nullptr if the family names none.
  const Implementation* ImplementationOf(const Point& point) const;
  double long_step() const { return parts_.long_step; }
  const PointFunction& predict_as() const { return parts_.predict_as; }

  // Reason why the family cannot be registered; empty if there is none.
  std::string Problem() const;

  workload::Cost CostOf(const Point& point) const { return parts_.cost(point); }
  absl::Status SupportOf(const Point& point, const Device& device) const;
  absl::StatusOr<Case> BuildAt(const Point& point, Inputs& inputs) const { return parts_.build(point, inputs); }

 private:
  FamilyParts parts_;  // without the axes and points of its FamilyGrid
};

// Adds a family to the program's table. At namespace scope:
//   const Registration kMine(FamilyOf<Operands>("mine", "…").Work(…).Operands(…).Impl(…).Points(…));
// An incomplete family, a duplicate name, or points with an unknown axis or value stop the program at start with a
// message: it is an error in the program, not in its use.
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
