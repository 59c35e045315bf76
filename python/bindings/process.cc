// SPDX-License-Identifier: Apache-2.0
// The process of a case, and what its parent says of its end.
#include "lib/base/process.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <sys/wait.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "lib/base/case_limit.h"
#include "lib/base/start_conditions.h"
#include "lib/base/text.h"
#include "lib/hardware/pressure.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/results/journal.h"
#include "python/bindings/bindings.h"

namespace roofbench::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// The limit of the one case that begins with it.
class LimitOfACase {
 public:
  explicit LimitOfACase(double seconds) : limit_(CaseLimit::Seconds(seconds)) {}

  bool IsReached() { return limit_.IsReached(began_, std::chrono::steady_clock::now()); }
  double NextCall() const { return limit_.NextCall().count(); }
  std::string Reason() const { return limit_.Reason(); }

 private:
  CaseLimit limit_;
  const CaseLimit::Moment began_ = std::chrono::steady_clock::now();
};

}  // namespace

void BindProcess(nb::module_& core) {
  nb::class_<LimitOfACase>(core, "CaseLimit", "The time of a case that begins now; pauses of this process do not count")
      .def(nb::init<double>(), "seconds"_a)
      .def("is_reached", &LimitOfACase::IsReached)
      .def("next_call", &LimitOfACase::NextCall, "Seconds until is_reached has to be called, at most")
      .def("reason", &LimitOfACase::Reason, "Why the case failed");
  core.def(
      "describe_end", [](int exit_code) { return DescribeEnd(exit_code >= 0 ? W_EXITCODE(exit_code, 0) : -exit_code); },
      "exit_code"_a, "How a process ended, from Python's exit code of it: the negative number of a signal");
  core.def("be_supervised_by", BeSupervisedBy, "parent"_a,
           "This process ends with its parent, and is the first that the system kills for memory. False if the parent "
           "has ended already");
  core.def(
      "why_not_to_start",
      [] {
        const char* why = WhyNotToStart();
        if (why == nullptr) why = RaiseStackLimit();
        return std::string(why == nullptr ? "" : why);
      },
      "Why this process, or a child that it will start, cannot work, with the way out; \"\" if it can. Raises a small "
      "limit of the stack");
  core.def(
      "yield_under_pressure",
      [] {
        if (hardware::IsLeftAlone(environ)) return std::string();
        const hardware::Pressure pressure = hardware::ReadPressure();
        if (pressure.IsHigh()) hardware::YieldWhileWaiting();
        return hardware::PressureText(pressure, kernels::Processors(), {.wait = "", .one_thread = "OMP_NUM_THREADS=1"});
      },
      "If other programs take most of the processors, says so, and lets the threads of child processes that start from "
      "now on yield while they wait; \"\" if not. Looks for a tenth of a second");
  core.def("printable", Excerpt, "text"_a, "width"_a,
           "On one line without characters that a terminal interprets, in at most so many columns");
  core.def(
      "hash_of_file",
      [](const std::string& path) {
        const absl::StatusOr<std::string> hash = HashOfFile(path);
        if (!hash.ok()) throw std::invalid_argument(std::string(hash.status().message()));
        return *hash;
      },
      "path"_a, "Depends on each byte");
}

}  // namespace roofbench::python
