// SPDX-License-Identifier: Apache-2.0
// The processors as a device, and the sampler over a Python callable.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/hardware/cache_eviction.h"
#include "lib/hardware/conditions/conditions_watch.h"
#include "lib/hardware/device_facts.h"
#include "lib/hardware/machine_facts.h"
#include "lib/hardware/roofs/cpu_roof_meter.h"
#include "lib/hardware/roofs/roof_gauge.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/results/evaluation.h"
#include "lib/timing/sampler.h"
#include "python/bindings/bindings.h"
#include "python/bindings/measurement.h"
#include "roofbench_version.h"

namespace roofbench::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;
using workload::Cost;

using Call = std::pair<nb::tuple, nb::dict>;
using AddressRange = std::pair<std::uintptr_t, std::size_t>;

std::vector<hardware::MemoryRange> RangesOf(const std::vector<AddressRange>& ranges) {
  std::vector<hardware::MemoryRange> found;
  for (const auto& [address, bytes] : ranges) found.push_back({reinterpret_cast<const std::byte*>(address), bytes});
  return found;
}

// The first argument of a step with phases.
class PhaseMark {
 public:
  void End(int phase) const {
    if (marker == nullptr) throw std::logic_error("a phase ended outside of a step");
    marker->End(phase);
  }
  timing::PhaseMarker* marker = nullptr;
};

// Makes the calls in turn. A result lives until the next one exists, as in a loop in Python.
class PythonStep {
 public:
  PythonStep(nb::callable function, const std::vector<Call>& calls, bool has_phases) : function_(std::move(function)) {
    if (has_phases) mark_ = nb::cast(PhaseMark());
    for (const auto& [given, keywords] : calls) {
      const nb::tuple arguments = has_phases ? nb::tuple(nb::make_tuple(mark_) + given) : given;
      calls_.emplace_back(arguments, keywords);
    }
    if (calls_.empty()) calls_.emplace_back(has_phases ? nb::make_tuple(mark_) : nb::tuple(), nb::dict());
  }

  void Run(timing::PhaseMarker& marker) {
    if (mark_.is_valid()) nb::cast<PhaseMark&>(mark_).marker = &marker;
    const auto& [arguments, keywords] = calls_[next_];
    PyObject* const result =
        PyObject_Call(function_.ptr(), arguments.ptr(), keywords.size() > 0 ? keywords.ptr() : nullptr);
    if (result == nullptr) throw nb::python_error();
    last_result_ = nb::steal(result);
    last_call_ = next_;
    if (++next_ == calls_.size()) next_ = 0;
  }

  const nb::object& last_result() const { return last_result_; }
  int64_t last_call() const { return static_cast<int64_t>(last_call_); }

 private:
  const nb::callable function_;
  std::vector<Call> calls_;
  nb::object mark_;
  nb::object last_result_ = nb::none();
  std::size_t next_ = 0;
  std::size_t last_call_ = 0;
};

struct StepOptions {
  std::vector<AddressRange> operands;
  std::vector<std::string> phases;
  std::optional<nb::callable> before_step;
  std::optional<nb::callable> interrupted;
};

int ThreadsOf(int threads) {
  if (threads < 0) throw std::invalid_argument("a negative number of threads");
  return threads > 0 ? threads : kernels::Processors();
}

class Machine {
 public:
  explicit Machine(int threads)
      : threads_(ThreadsOf(threads)),
        facts_(hardware::ReadCpuFacts()),
        meter_(facts_, threads_),
        evictor_(facts_.LastLevelCacheBytes(), threads_) {}

  const std::string& name() const { return facts_.model; }
  int threads() const { return threads_; }
  double LastLevelCacheBytes() const { return facts_.LastLevelCacheBytes(); }
  const std::vector<hardware::RoofReading>& Readings() const { return meter_.readings(); }
  bool Supports(const std::string& dtype) const { return facts_.Supports(DtypeNamed(dtype)); }

  nb::dict Context() const {
    nb::dict context;
    const auto add = [&](std::string_view key, const std::string& value) {
      context[nb::str(key.data(), key.size())] = value;
    };
    add("roofbench_version", ROOFBENCH_VERSION);
    add("roofbench_revision", ROOFBENCH_GIT_REVISION);
    add("build_type", ROOFBENCH_BUILD_TYPE);
    add("optimized", ROOFBENCH_OPTIMIZED ? "true" : "false");
    add("device_kind", "cpu");
    add("device", facts_.model);
    add("threads", std::to_string(threads_));
    for (const auto& [key, value] : facts_.Context()) add(key, value);
    for (const auto& [key, value] : hardware::MachineFacts()) add(key, value);
    for (const auto& [key, rate] : workload::KnownRates(meter_.peaks())) {
      add("roof_" + std::string(key), std::to_string(rate));
    }
    return context;
  }

  std::map<std::string, double> Peaks() const {
    std::map<std::string, double> peaks;
    for (const auto& [key, rate] : workload::KnownRates(meter_.peaks())) peaks[std::string(key)] = rate;
    return peaks;
  }

  double Calibrate(const Cost& cost) {
    hardware::ConditionsWatch watch = Watch();
    CalibrateFor(cost);
    const hardware::MeasuredConditions meanwhile = watch.Finish();
    return meanwhile.others_share + meanwhile.stolen_share;
  }

  void Restore(const std::vector<hardware::RoofReading>& readings) { meter_.Restore(readings); }

  void AddComputeProbe(const std::string& dtype, const std::string& probe, double flops, const nb::callable& step) {
    meter_.AddComputeProbe(DtypeNamed(dtype), probe, hardware::MedianOfSteps(flops, [step] { step(); }));
  }

  std::optional<double> RoofSeconds(const Cost& cost, bool cold) {
    CalibrateFor(cost);
    const hardware::RoofGauge gauge = Gauge(cost, cold);
    const double seconds = gauge.SecondsAt(cost, gauge.calibrated_rate);
    return seconds > 0 ? std::optional(seconds) : std::nullopt;
  }

  std::size_t Evict(const std::vector<AddressRange>& ranges) const { return evictor_.Evict(RangesOf(ranges)); }

  Measurement Sample(const nb::callable& function, const std::vector<Call>& calls, const std::optional<Cost>& cost,
                     bool cold, const std::vector<AddressRange>& operands, const std::vector<std::string>& phases,
                     const std::optional<timing::SampleOptions>& options,
                     const std::optional<nb::callable>& before_step, const std::optional<nb::callable>& interrupted) {
    Measurement measurement;
    Outcome& outcome = measurement.outcome;
    outcome.phases = phases;
    outcome.cost = cost.value_or(Cost());
    timing::SampleOptions sampling = options.value_or(timing::SampleOptions());
    const bool has_roof = cost && sampling.roof_share > 0;
    hardware::RoofGauge gauge;
    if (has_roof) {
      CalibrateFor(*cost);
      gauge = Gauge(*cost, cold);
    }
    PythonStep step(function, calls, !phases.empty());
    const std::vector<hardware::MemoryRange> ranges = RangesOf(operands);
    timing::IgnoredPhases ignored;
    double modified = 0;
    if (has_roof && !ranges.empty()) {
      modified = evictor_.ModifiedBytesOf([&] { step.Run(ignored); }, ranges,
                                          cost->BytesWritten() + cost->BytesUpdated(), clock_);
    }
    if (before_step || !ranges.empty()) {
      sampling.before_step = [&] {
        if (before_step) (*before_step)();
        if (!ranges.empty()) evictor_.EvictAndRefill(ranges, modified);
      };
    }
    hardware::ConditionsWatch watch = Watch();
    sampling.interrupted = [&] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      return interrupted && nb::cast<bool>((*interrupted)());
    };
    outcome.samples = timing::TakeSamples(
        clock_, [&step](timing::PhaseMarker& marker) { step.Run(marker); }, static_cast<int>(phases.size()),
        gauge.probe, sampling);
    outcome.conditions = watch.Finish();
    measurement.last_result = step.last_result();
    measurement.last_call = step.last_call();
    const auto cache = cold ? hardware::CacheState::kCold : hardware::CacheState::kWarm;
    if (const absl::Status status = Evaluate(gauge, cache, outcome); !status.ok()) {
      measurement.impossible = std::string(status.message());
    }
    return measurement;
  }

 private:
  hardware::ConditionsWatch Watch() {
    return hardware::ConditionsWatch(
        {.clock = clock_, .read = hardware::ReadProcessorConditions, .processors = facts_.logical_cpus});
  }

  void CalibrateFor(const Cost& cost) {
    hardware::RoofNeeds needs = hardware::NeedsOf(cost);
    for (const workload::Dtype dtype : workload::kDtypes) {
      if (!facts_.Supports(dtype)) needs.dtypes.reset(workload::Index(dtype));
    }
    meter_.Calibrate(needs, hardware::CpuRoofMeter::kCalibrationSeconds);
  }

  hardware::RoofGauge Gauge(const Cost& cost, bool cold) {
    return gauges_.For(cost, cold ? hardware::CacheState::kCold : hardware::CacheState::kWarm, meter_);
  }

  const int threads_;
  const hardware::CpuFacts facts_;
  timing::CpuClock clock_;
  hardware::CpuRoofMeter meter_;
  hardware::RoofGauges gauges_;
  hardware::CacheEvictor evictor_;
};

}  // namespace

void BindMachine(nb::module_& core) {
  nb::class_<PhaseMark>(core, "_PhaseMark").def("__call__", &PhaseMark::End, "phase"_a);

  using hardware::RoofReading;
  nb::class_<RoofReading>(core, "Reading")
      .def(
          "__init__",
          [](RoofReading* reading, std::string roof, std::string variant, double rate, bool best, double slow,
             double fast) {
            new (reading) RoofReading{.roof = std::move(roof),
                                      .variant = std::move(variant),
                                      .rate = rate,
                                      .best = best,
                                      .range = {.slow = slow, .fast = fast}};
          },
          "roof"_a, "variant"_a, "rate"_a, "best"_a = false, "slow"_a = 0, "fast"_a = 0)
      .def_ro("roof", &RoofReading::roof)
      .def_ro("variant", &RoofReading::variant)
      .def_ro("rate", &RoofReading::rate)
      .def_ro("best", &RoofReading::best)
      .def_prop_ro("slow", [](const RoofReading& reading) { return reading.range.slow; })
      .def_prop_ro("fast", [](const RoofReading& reading) { return reading.range.fast; });

  using timing::SampleOptions;
  nb::class_<SampleOptions>(core, "SampleOptions")
      .def("__init__",
           [](nb::handle_t<SampleOptions> self, const nb::kwargs& fields) {
             new (nb::inst_ptr<SampleOptions>(self)) SampleOptions();
             nb::inst_mark_ready(self);
             for (const auto& [name, value] : fields) nb::setattr(self, name, value);
           })
      .def_rw("warmup_iters", &SampleOptions::warmup_iters, nb::arg().none())
      .def_rw("min_samples", &SampleOptions::min_samples)
      .def_rw("max_samples", &SampleOptions::max_samples)
      .def_rw("least_samples", &SampleOptions::least_samples)
      .def_rw("exact_samples", &SampleOptions::exact_samples)
      .def_rw("max_time", &SampleOptions::max_time)
      .def_rw("max_wall", &SampleOptions::max_wall)
      .def_rw("max_warmup_time", &SampleOptions::max_warmup_time)
      .def_rw("target_ci", &SampleOptions::target_ci)
      .def_rw("chunk_seconds", &SampleOptions::chunk_seconds)
      .def_rw("roof_share", &SampleOptions::roof_share);

  nb::class_<Machine>(core, "Machine")
      .def(nb::init<int>(), "threads"_a = 0)
      .def_prop_ro("name", &Machine::name)
      .def_prop_ro("threads", &Machine::threads)
      .def_prop_ro("last_level_cache_bytes", &Machine::LastLevelCacheBytes)
      .def("free_memory_bytes", [](const Machine&) { return hardware::AvailableMemoryBytes(); })
      .def("context", &Machine::Context)
      .def("supports", &Machine::Supports, "dtype"_a)
      .def("calibrate", &Machine::Calibrate, "cost"_a)
      .def("restore", &Machine::Restore, "readings"_a)
      .def("readings", &Machine::Readings)
      .def("peaks", &Machine::Peaks)
      .def("add_compute_probe", &Machine::AddComputeProbe, "dtype"_a, "name"_a, "flops"_a, "step"_a)
      .def("roof_seconds", &Machine::RoofSeconds, "cost"_a, nb::kw_only(), "cold"_a = true)
      .def(
          "others_share", [](const Machine&, double seconds) { return hardware::OthersShare(seconds); }, "seconds"_a,
          nb::call_guard<nb::gil_scoped_release>())
      .def("evict", &Machine::Evict, "ranges"_a)
      .def("sample", &Machine::Sample, "step"_a, "calls"_a = nb::list(), nb::kw_only(), "cost"_a = nb::none(),
           "cold"_a = true, "operands"_a = nb::tuple(), "phases"_a = nb::tuple(), "options"_a = nb::none(),
           "before_step"_a = nb::none(), "interrupted"_a = nb::none());
}

}  // namespace roofbench::python
