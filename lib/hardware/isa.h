// The vector extensions that the probes are written for, and which of them this processor runs.
#pragma once

#include <string_view>

namespace roofbench::hardware {

enum class Isa { kBaseline, kAvx2, kAvx512 };

// "baseline", "avx2", "avx512"
std::string_view Name(Isa isa);

// Asks the processor (and the system, which must save the registers), not /proc.
Isa WidestIsa();

}  // namespace roofbench::hardware
