// SPDX-License-Identifier: Apache-2.0
// The measured roofs of lib/hardware in the form that roof_loops prints, for `measure.py roofs`.
//
//   roof_meter_main [seconds = 2] [threads = all]
//
// prints {"read": bytes/s, "copy": bytes/s, "fp32": FLOP/s, "bf16": FLOP/s}: the best of many probes. 0: no such roof.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "lib/hardware/device_facts.h"
#include "lib/hardware/roofs/cpu_roof_meter.h"

namespace {

using roofbench::workload::Dtype;

constexpr double kCalibrationSeconds = 0.01;
constexpr double kProbeSeconds = 0.01;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

int main(int argc, char** argv) {
  const auto facts = roofbench::hardware::ReadCpuFacts();
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  const int threads = argc > 2 ? std::atoi(argv[2]) : static_cast<int>(facts.affinity.size());

  roofbench::hardware::CpuRoofMeter meter(facts, threads);
  meter.Calibrate(roofbench::hardware::StreamsAnd({Dtype::kFp32, Dtype::kBf16}), kCalibrationSeconds);
  const double end = Now() + seconds;
  double read = 0;
  double copy = 0;
  double fp32 = 0;
  double bf16 = 0;
  do {
    read = std::max(read, meter.MeasureMemory({.read = 1}, kProbeSeconds));
    copy = std::max(copy, meter.MeasureMemory({.copy = 1}, kProbeSeconds));
    fp32 = std::max(fp32, meter.MeasureCompute(Dtype::kFp32, kProbeSeconds));
    bf16 = std::max(bf16, meter.MeasureCompute(Dtype::kBf16, kProbeSeconds));
  } while (Now() < end);
  std::printf("{\"read\": %.6g, \"copy\": %.6g, \"fp32\": %.6g, \"bf16\": %.6g}\n", read, copy, fp32, bf16);
  return 0;
}
