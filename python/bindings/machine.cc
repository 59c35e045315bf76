// SPDX-License-Identifier: Apache-2.0
// The processors as a device, and the sampler over a Python callable.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/files.h"
#include "lib/base/readable.h"
#include "lib/hardware/cache_eviction.h"
#include "lib/hardware/conditions/conditions_watch.h"
#include "lib/hardware/conditions/handover.h"
#include "lib/hardware/datasheet.h"
#include "lib/hardware/device_facts.h"
#include "lib/hardware/machine_facts.h"
#include "lib/hardware/pressure.h"
#include "lib/hardware/roofs/cpu_roof_meter.h"
#include "lib/hardware/roofs/roof_gauge.h"
#include "lib/hardware/thread_places.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/results/counters.h"
#include "lib/results/evaluation.h"
#include "lib/results/journal_line.h"
#include "lib/results/kept_roofs.h"
#include "lib/timing/clock_watch.h"
#include "lib/timing/exchanges.h"
#include "lib/timing/sampler.h"
#include "python/bindings/bindings.h"
#include "roofbench_version.h"

namespace roofbench::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;
using workload::Cost;

constexpr char kKind[] = "cpu";

// Address, bytes of an element, number of elements; address and number of spare ones; number of the array.
using Contiguous = std::tuple<std::uintptr_t, int64_t, int64_t, std::uintptr_t, int64_t, int64_t>;

// Of the time of samples of cold operands.
constexpr double kShareOfLargePieces = 0.3;

timing::Exchanges ExchangesOf(const std::vector<Contiguous>& arrays, bool cold) {
  std::vector<timing::Exchanges::Operand> operands;
  for (const auto& [address, bytes, count, spare, spares, array] : arrays) {
    operands.push_back(
        {reinterpret_cast<std::byte*>(address), bytes, count, reinterpret_cast<std::byte*>(spare), spares, array});
  }
  return timing::Exchanges(std::move(operands), cold ? kShareOfLargePieces : 0);
}

nb::list InEffect(const timing::Exchanges& exchanges) {
  nb::list pairs;
  for (const timing::Exchanges::Pair& pair : exchanges.InEffect()) {
    pairs.append(nb::make_tuple(pair.operand, pair.one, pair.other, pair.length, pair.with_spare));
  }
  return pairs;
}

int64_t PageFaults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

int ThreadsOf(int threads) {
  if (threads < 0) throw std::invalid_argument("a negative number of threads");
  return threads > 0 ? threads : kernels::Processors();
}

class Machine {
 public:
  explicit Machine(int threads)
      : threads_(ThreadsOf(threads)),
        places_(hardware::FindThreadPlaces(threads_)),
        facts_(hardware::ReadCpuFacts("/", places_.Processors())),
        meter_(facts_, threads_),
        evictor_(facts_.LastLevelCacheBytes(), threads_) {}

  nb::dict Context() const {
    nb::dict context;
    const auto add = [&](std::string_view key, const std::string& value) {
      context[nb::str(key.data(), key.size())] = value;
    };
    add("roofbench_version", ROOFBENCH_VERSION);
    add("roofbench_revision", ROOFBENCH_GIT_REVISION);
    add("build_type", ROOFBENCH_BUILD_TYPE);
    add("optimized", ROOFBENCH_OPTIMIZED ? "true" : "false");
    add("device_kind", kKind);
    add("device", facts_.model);
    add("threads", std::to_string(threads_));
    for (const auto& [key, value] : facts_.Context()) add(key, value);
    for (const auto& [key, value] : hardware::MachineFacts()) add(key, value);
    if (const auto waiting = hardware::WaitingFact()) add(waiting->first, waiting->second);
    for (const auto& [key, rate] : workload::KnownRates(meter_.peaks())) {
      add("roof_" + std::string(key), std::to_string(rate));
    }
    return context;
  }

  std::string CrowdText() const { return places_.CrowdText(); }

  // Takes the roofs that an earlier process kept, and keeps those of this one. Without a private folder there is
  // nothing to reuse.
  void ReuseRoofs(const std::string& library) {
    const absl::StatusOr<std::string> folder = PrivateCacheFolder("roofs");
    if (!folder.ok()) return;
    kept_.emplace(*folder,
                  RoofConditions{.version = ROOFBENCH_VERSION,
                                 .revision = ROOFBENCH_GIT_REVISION,
                                 .build_type = ROOFBENCH_BUILD_TYPE,
                                 .kind = kKind,
                                 .name = facts_.model,
                                 .threads = threads_,
                                 .context = facts_.Context()},
                  library);
    meter_.Restore(kept_->Load(SecondsSince1970()).readings);
  }

  void Calibrate(const Cost& cost) {
    const std::size_t known = meter_.readings().size();
    hardware::ConditionsWatch watch = Watch();
    CalibrateFor(cost);
    const hardware::MeasuredConditions meanwhile = watch.Finish();
    const double others = meanwhile.others_share + meanwhile.stolen_share;
    if (!kept_ || meter_.readings().size() == known || others > KeptRoofs::kQuietShare) return;
    // An error is harmless: the next process can measure them again.
    kept_->Save(meter_.readings(), SecondsSince1970(), others).IgnoreError();
  }

  void AddComputeProbe(const std::string& dtype, const std::string& probe, double flops, const nb::callable& step) {
    if (!facts_.Supports(DtypeNamed(dtype))) return;
    meter_.AddComputeProbe(DtypeNamed(dtype), probe, hardware::MedianOfSteps(flops, [step] { step(); }));
  }

  nb::tuple Sample(const nb::callable& function, const nb::tuple& arguments, const std::optional<Cost>& cost, bool cold,
                   const std::optional<timing::SampleOptions>& options, const std::optional<nb::callable>& before_step,
                   const std::optional<nb::callable>& interrupted, const std::vector<Contiguous>& exchanged,
                   const std::optional<nb::callable>& looked) {
    Outcome outcome = {.cost = cost.value_or(Cost())};
    timing::SampleOptions sampling = options.value_or(timing::SampleOptions());
    const bool has_roof = cost && sampling.roof_share > 0;
    const auto cache = cold ? hardware::CacheState::kCold : hardware::CacheState::kWarm;
    hardware::RoofGauge gauge;
    if (has_roof) {
      CalibrateFor(*cost);
      gauge = gauges_.For(*cost, cache, meter_);
    }
    int64_t calls = 0;
    nb::object last_result = nb::none();  // lives until the next call, which may have its memory
    timing::Exchanges exchanges = ExchangesOf(exchanged, cold);
    const auto call = [&] {
      exchanges.Next();
      ++calls;
      last_result = nb::none();
      PyObject* const result = PyObject_Call(function.ptr(), arguments.ptr(), nullptr);
      if (result == nullptr) throw nb::python_error();
      last_result = nb::steal(result);
      // What the function left to Python's next line is its work.
      if (Py_MakePendingCalls() != 0) throw nb::python_error();
    };
    const auto renew = [&](int64_t steps) {
      if (looked && calls > 0 && exchanges.IsLookDue()) (*looked)(last_result, InEffect(exchanges));
      exchanges.Begin(steps);
    };
    int64_t faults_beside = 0;  // of what precedes calls, and of probes
    const auto beside = [&faults_beside](const auto& run) {
      const int64_t before = PageFaults();
      run();
      faults_beside += PageFaults() - before;
    };
    const bool renews = !exchanged.empty() || looked;
    double modified = 0;
    if (before_step) {
      const auto prepare = [&] {
        using Memory = std::vector<std::pair<std::uintptr_t, std::size_t>>;
        std::vector<hardware::MemoryRange> ranges;
        for (const auto& [address, bytes] : nb::cast<Memory>((*before_step)(last_result))) {
          ranges.push_back({reinterpret_cast<const std::byte*>(address), bytes});
        }
        return ranges;
      };
      if (has_roof) {
        prepare();
        call();  // its result has memory from now on
        modified = evictor_.ModifiedBytesOf(call, prepare, cost->BytesWritten() + cost->BytesUpdated(), clock_);
      }
      sampling.before_step = [&, prepare] {
        beside([&] {
          if (renews) renew(1);
          if (const auto ranges = prepare(); !ranges.empty()) evictor_.EvictAndRefill(ranges, modified);
        });
      };
    } else if (renews) {
      sampling.before_sample = [&](int64_t steps) { beside([&] { renew(steps); }); };
    }
    timing::RoofProbe probe;
    if (gauge.probe) {
      probe = [&](double seconds) {
        double rate = 0;
        beside([&] { rate = gauge.probe(seconds); });
        return rate;
      };
    }
    hardware::ConditionsWatch watch = Watch();
    sampling.interrupted = [&] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      return interrupted && nb::cast<bool>((*interrupted)());
    };
    calls = 0;
    const timing::ClockWatch clock_watch;
    const int64_t faults = PageFaults();
    nb::object raised = nb::none();
    try {
      timing::TakeSamples(
          clock_, [&call](timing::PhaseMarker&) { call(); }, /*phases=*/0, probe, sampling, outcome.samples);
    } catch (const nb::python_error& error) {
      if (outcome.samples.seconds.empty() || !error.matches(PyExc_Exception)) throw;
      raised = nb::borrow(error.value());
    }
    const double page_faults =
        static_cast<double>(PageFaults() - faults - faults_beside) / static_cast<double>(std::max<int64_t>(1, calls));
    outcome.conditions = watch.Finish();
    const std::string clock_fault = clock_watch.Fault();
    const absl::Status status = Evaluate(gauge, cache, /*on_processors=*/true, outcome);
    outcome.counters = ComputeCounters({.outcome = outcome, .reference = *hardware::FindDatasheet("a100-sxm4-40gb")});
    return nb::make_tuple(JournalLine(outcome), clock_fault.empty() ? std::string(status.message()) : clock_fault,
                          page_faults, raised, last_result, InEffect(exchanges));
  }

 private:
  hardware::ConditionsWatch Watch() {
    return hardware::ConditionsWatch({.clock = clock_,
                                      .read = hardware::ReadProcessorConditions,
                                      .processors = facts_.logical_cpus,
                                      .handover = [this] { return hardware::HandoverSeconds(threads_); }});
  }

  void CalibrateFor(const Cost& cost) {
    hardware::RoofNeeds needs = hardware::NeedsOf(cost);
    for (const workload::Dtype dtype : workload::kDtypes) {
      if (!facts_.Supports(dtype)) needs.dtypes.reset(workload::Index(dtype));
    }
    meter_.Calibrate(needs, hardware::CpuRoofMeter::kCalibrationSeconds);
  }

  const int threads_;
  const hardware::ThreadPlaces places_;
  const hardware::CpuFacts facts_;
  timing::CpuClock clock_;
  hardware::CpuRoofMeter meter_;
  hardware::RoofGauges gauges_;
  hardware::CacheEvictor evictor_;
  std::optional<KeptRoofs> kept_;
};

}  // namespace

void BindMachine(nb::module_& core) {
  using timing::SampleOptions;
  core.def(
      "is_readable",
      [](std::uintptr_t address, std::size_t bytes) {
        return IsReadable(reinterpret_cast<const void*>(address), bytes);  // NOLINT(performance-no-int-to-ptr)
      },
      "address"_a, "bytes"_a, "Whether memory is there to be read (lib/base/readable.h)");
  core.def(
      "is_served",
      [](std::uintptr_t address, std::size_t bytes) {
        return IsServed(reinterpret_cast<const void*>(address), bytes);  // NOLINT(performance-no-int-to-ptr)
      },
      "address"_a, "bytes"_a, "Whether a thread may supply it when it is read (lib/base/readable.h)");
  nb::class_<SampleOptions>(core, "SampleOptions", "When to stop (lib/timing/sampler.h)")
      .def(
          "__init__",
          [](nb::handle_t<SampleOptions> self, const nb::kwargs& fields) {
            new (nb::inst_ptr<SampleOptions>(self)) SampleOptions();
            nb::inst_mark_ready(self);
            for (const auto& [name, value] : fields) nb::setattr(self, name, value);
          },
          nb::sig("def __init__(self, **fields: float | None) -> None"))
      .def_rw("warmup_iters", &SampleOptions::warmup_iters, nb::arg().none())
      .def_rw("min_samples", &SampleOptions::min_samples)
      .def_rw("max_samples", &SampleOptions::max_samples)
      .def_rw("exact_samples", &SampleOptions::exact_samples)
      .def_rw("max_time", &SampleOptions::max_time)
      .def_rw("max_wall", &SampleOptions::max_wall)
      .def_rw("max_warmup_time", &SampleOptions::max_warmup_time)
      .def_rw("roof_share", &SampleOptions::roof_share);

  nb::class_<Machine>(core, "Machine", "The processors as a device, which keeps the measured roofs: one a process")
      .def(nb::init<int>(), "threads"_a = 0, "threads of the probes; 0: one for each processor of this process")
      .def("context", &Machine::Context, nb::sig("def context(self) -> dict[str, str]"),
           "Facts for the context of results, with the program's keys")
      .def("add_compute_probe", &Machine::AddComputeProbe, "dtype"_a, "name"_a, "flops"_a, "step"_a,
           "A way to the arithmetic roof, such as a library's product; call it before reuse_roofs. Ignored in a "
           "precision that the hardware lacks")
      .def("crowd_text", &Machine::CrowdText,
           "\"2 threads share processor 0: …\" where some of its threads can never run at the same time; else \"\"")
      .def("reuse_roofs", &Machine::ReuseRoofs, "library"_a,
           "Takes the roofs that an earlier process kept, and keeps those of this one. `library` names the added "
           "probes with their versions: arithmetic roofs are kept for each of them")
      .def("calibrate", &Machine::Calibrate, "cost"_a, "Measures the unknown roofs that the cost needs, 0.1 to 1 s")
      .def("sample", &Machine::Sample, "function"_a, "arguments"_a = nb::tuple(), nb::kw_only(), "cost"_a = nb::none(),
           "cold"_a = true, "options"_a = nb::none(), "before_step"_a = nb::none(), "interrupted"_a = nb::none(),
           "exchanged"_a = std::vector<Contiguous>(), "looked"_a = nb::none(),
           "Takes samples of function(*arguments), with roof probes between them where there is a cost. `before_step` "
           "is called with the last result before each call, untimed; what it returns, (address, bytes), is evicted. "
           "`cold` selects the roof. `interrupted` is polled between chunks. Of the parts of arrays `exchanged` "
           "(address, bytes of an element, elements; address and number of spare ones; number of the array) two "
           "pieces change places before each call, and some elements with spare ones (lib/timing/exchanges.h); "
           "`looked` is called at random moments, with the last result and the exchanges that its call found. A "
           "KeyboardInterrupt passes through, and so do other exceptions before there are samples. Returns the fields "
           "of roofbench._measure.Sampled");
}

}  // namespace roofbench::python
