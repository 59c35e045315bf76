// SPDX-License-Identifier: Apache-2.0
// Runs the instructions of HardwareTiles on processors that lack them.
#pragma once

#include <cstdint>

namespace roofbench::kernels {

// Why HardwareTiles cannot run even with TrappedTiles.
inline constexpr char kNoTiles[] =
    "there are neither tiles nor AVX-512 with bf16 and VNNI, which all processors with tiles have";

// While it lives, IsaHas grants kAmxBf16 and kAmxInt8. Where the processor has no tiles (Intel AMX), each of their
// instructions raises a signal, whose handler decodes and executes it as the manual says (Intel SDM, volumes 2A to 2C).
// A condition for which the processor would refuse it ends the process with the reason on stderr. This takes about
// 8 us an instruction in a virtual machine. Does nothing where the processor has tiles, or lacks AVX-512 with bf16
// and VNNI, which all processors with tiles have, or where the system is not Linux.
class TrappedTiles {
 public:
  TrappedTiles();
  TrappedTiles(const TrappedTiles&) = delete;
  TrappedTiles& operator=(const TrappedTiles&) = delete;
  ~TrappedTiles();

  // Instructions that the handler executed, in all threads; -1 where it does nothing.
  int64_t executed() const;

 private:
  const bool is_needed_;
};

}  // namespace roofbench::kernels
