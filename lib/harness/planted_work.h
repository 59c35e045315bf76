// Real extra work of a chosen length, to make a step slower on purpose.
#pragma once

#include <cstdint>

namespace roofbench {

// Arithmetic on one thread that takes about `seconds` each time it is run. The length is set once, by timing the loop,
// so that the work and not a clock decides when it ends.
class PlantedWork {
 public:
  explicit PlantedWork(double seconds);
  void Run() const;

 private:
  int64_t iterations_;
};

}  // namespace roofbench
