#include "lib/hardware/measured_roofs.h"

#include <algorithm>

namespace roofbench::hardware {

TrafficMix MeasuredRoofs::MixOf(const workload::Cost& cost) {
  TrafficMix mix;
  for (const workload::Operation& operation : cost.operations) {
    const double copied = std::min(operation.bytes_read, operation.bytes_written);
    mix.read += operation.repeat * (operation.bytes_read - copied);
    mix.write += operation.repeat * (operation.bytes_written - copied);
    mix.copy += operation.repeat * 2 * copied;
    mix.update += operation.repeat * 2 * operation.bytes_updated;
  }
  return mix;
}

}  // namespace roofbench::hardware
