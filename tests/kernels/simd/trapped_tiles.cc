// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/simd/trapped_tiles.h"

#include "lib/kernels/simd/isa.h"
#include "lib/kernels/simd/tile.h"

#if ROOFBENCH_X86 && defined(__linux__) && !ROOFBENCH_EMULATE_TILES
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

namespace roofbench::kernels {
namespace {

constexpr int kMost = 16;  // registers that a configuration may describe; the palette has half of them

struct Register {
  uint8_t rows = 0;
  uint16_t row_bytes = 0;
  // Zeros beyond `rows` and `row_bytes`, as after each instruction that writes to it.
  alignas(kTileRowBytes) std::byte data[kTileBytes] = {};
};

// Of one thread.
struct Registers {
  bool is_configured = false;
  Register tiles[kTileRegisters];
};
thread_local Registers registers;
std::atomic<int64_t> executions;
struct sigaction previous_action;

[[noreturn]] void Refuse(std::string_view why) {
  constexpr std::string_view kWhat = "tile instruction refused: ";
  for (const std::string_view text : {kWhat, why, std::string_view("\n")}) {
    if (write(STDERR_FILENO, text.data(), text.size()) < 0) break;
  }
  std::abort();
}

void Require(bool condition, std::string_view why) {
  if (!condition) Refuse(why);
}

Register& Configured(int tile) {
  Require(tile < kTileRegisters, "the palette has no such tile");
  Require(registers.is_configured, "no configuration is loaded");
  Require(registers.tiles[tile].rows > 0, "the configuration leaves the tile out");
  return registers.tiles[tile];
}

// A VEX-encoded instruction of map 0F38 whose ModRM byte follows the opcode.
struct Instruction {
  int prefix;  // 0: none, 1: 66, 2: F3, 3: F2
  uint8_t opcode;
  int reg;
  int rm;
  int vector_operand;  // VEX.vvvv
  bool has_memory;
  const std::byte* start;  // of the memory operand, without the index
  int64_t index;           // times its scale
  int length;
};

class Decoder {
 public:
  explicit Decoder(const ucontext_t& context)
      : registers_(context.uc_mcontext.gregs), code_(reinterpret_cast<const uint8_t*>(registers_[REG_RIP])) {}

  // nullopt: another instruction.
  std::optional<Instruction> Decode() const {
    constexpr uint8_t kVex = 0xc4;
    constexpr int kMap0f38 = 2;
    if (code_[0] != kVex || (code_[1] & 31) != kMap0f38 || (code_[2] & 0x84) != 0) return std::nullopt;  // W, L
    const uint8_t modrm = code_[4];
    Instruction in = {.prefix = code_[2] & 3,
                      .opcode = code_[3],
                      .reg = (modrm >> 3 & 7) | Extension(7),
                      .rm = (modrm & 7) | Extension(5),
                      .vector_operand = ~code_[2] >> 3 & 15,
                      .has_memory = modrm >> 6 != 3,
                      .start = nullptr,
                      .index = 0,
                      .length = 5};
    if (in.has_memory) DecodeMemory(modrm >> 6, in);
    return in;
  }

 private:
  // A register number's fourth bit, which VEX inverts.
  int Extension(int bit) const { return (code_[1] >> bit & 1) == 0 ? 8 : 0; }

  int64_t General(int number) const {
    constexpr int kNumbers[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return registers_[kNumbers[number]];
  }

  void DecodeMemory(int mode, Instruction& in) const {
    constexpr int kSib = 4;
    constexpr int kNoBase = 5;
    int displacement_bytes = mode == 0 ? 0 : mode == 1 ? 1 : 4;
    int base = in.rm;
    bool is_relative = false;  // to the next instruction
    if ((in.rm & 7) == kSib) {
      const uint8_t sib = code_[in.length++];
      const int index = (sib >> 3 & 7) | Extension(6);
      if (index != kSib) in.index = General(index) << (sib >> 6);
      base = (sib & 7) | Extension(5);
      if (mode == 0 && (sib & 7) == kNoBase) base = -1;
    } else if (mode == 0 && (in.rm & 7) == kNoBase) {
      base = -1;
      is_relative = true;
    }
    if (base < 0) displacement_bytes = 4;
    int64_t address = base < 0 ? 0 : General(base);
    if (displacement_bytes == 1) {
      address += static_cast<int8_t>(code_[in.length]);
    } else if (displacement_bytes == 4) {
      int32_t displacement;
      std::memcpy(&displacement, code_ + in.length, sizeof(displacement));
      address += displacement;
    }
    in.length += displacement_bytes;
    if (is_relative) address += registers_[REG_RIP] + in.length;
    in.start = reinterpret_cast<const std::byte*>(address);
  }

  const greg_t* registers_;
  const uint8_t* code_;
};

void LoadConfiguration(const std::byte* from) {
  uint8_t bytes[kTileRowBytes];
  std::memcpy(bytes, from, sizeof(bytes));
  constexpr int kRowBytesAt = 16;
  constexpr int kRowsAt = 48;
  registers = {};
  if (bytes[0] == 0) return;  // the same as a release
  Require(bytes[0] == 1, "the configuration's palette is neither 0 nor 1");
  Require(bytes[1] == 0, "the configuration starts within a tile");
  Require(std::all_of(bytes + 2, bytes + kRowBytesAt, [](uint8_t byte) { return byte == 0; }),
          "a reserved byte of the configuration is set");
  for (int tile = 0; tile < kMost; ++tile) {
    uint16_t row_bytes;
    std::memcpy(&row_bytes, bytes + kRowBytesAt + 2 * tile, sizeof(row_bytes));
    const uint8_t rows = bytes[kRowsAt + tile];
    Require(rows <= kTileRows && row_bytes <= kTileRowBytes, "the configuration has a tile that is too large");
    Require((rows == 0) == (row_bytes == 0), "the configuration has a tile with rows or with columns only");
    if (tile < kTileRegisters) {
      registers.tiles[tile].rows = rows;
      registers.tiles[tile].row_bytes = row_bytes;
    } else {
      Require(rows == 0, "the configuration has a tile that the palette lacks");
    }
  }
  registers.is_configured = true;
}

void Load(int number, const Instruction& in) {
  Register& tile = Configured(number);
  std::memset(tile.data, 0, sizeof(tile.data));
  for (int row = 0; row < tile.rows; ++row) {
    std::memcpy(tile.data + row * kTileRowBytes, in.start + row * in.index, tile.row_bytes);
  }
}

void Store(int number, const Instruction& in) {
  const Register& tile = Configured(number);
  for (int row = 0; row < tile.rows; ++row) {
    std::memcpy(const_cast<std::byte*>(in.start) + row * in.index, tile.data + row * kTileRowBytes, tile.row_bytes);
  }
}

void MultiplyAdd(TileProduct product, const Instruction& in) {
  Register& sums = Configured(in.reg);
  const Register& x = Configured(in.rm);
  const Register& y = Configured(in.vector_operand);
  Require(in.reg != in.rm && in.reg != in.vector_operand && in.rm != in.vector_operand,
          "operands of a product are one tile");
  Require(sums.row_bytes % 4 == 0 && x.row_bytes % 4 == 0 && y.row_bytes % 4 == 0, "columns are no whole groups");
  Require(x.rows == sums.rows && y.row_bytes == sums.row_bytes && x.row_bytes == 4 * y.rows,
          "the sizes of a product's operands differ");
  EmulateTileProduct(product, x.data, y.data, sums.data);
}

// Whether it is an instruction of tiles, which it then has executed.
bool Execute(const Instruction& in) {
  constexpr uint8_t kConfigure = 0x49;
  constexpr uint8_t kMove = 0x4b;
  constexpr uint8_t kProductOfBf16 = 0x5c;
  constexpr uint8_t kProductOfBytes = 0x5e;
  constexpr int kNone = 0;
  constexpr int kF3 = 2;
  constexpr int kF2 = 3;
  constexpr int kWithIndex = 4;  // of ModRM: a SIB byte follows
  if (in.opcode == kConfigure && in.reg == 0 && in.prefix == kNone && in.has_memory) {
    LoadConfiguration(in.start + in.index);
  } else if (in.opcode == kConfigure && in.reg == 0 && in.prefix == kNone && in.rm == 0) {
    registers = {};
  } else if (in.opcode == kConfigure && in.prefix == kF2 && !in.has_memory && in.rm == 0) {
    Register& tile = Configured(in.reg);
    std::memset(tile.data, 0, sizeof(tile.data));
  } else if (in.opcode == kMove && in.has_memory && (in.rm & 7) == kWithIndex && in.prefix == kF2) {
    Load(in.reg, in);
  } else if (in.opcode == kMove && in.has_memory && (in.rm & 7) == kWithIndex && in.prefix == kF3) {
    Store(in.reg, in);
  } else if (in.opcode == kProductOfBf16 && !in.has_memory && in.prefix == kF3) {
    MultiplyAdd(TileProduct::kBf16, in);
  } else if (in.opcode == kProductOfBytes && !in.has_memory && (in.prefix == kF2 || in.prefix == kF3)) {
    MultiplyAdd(in.prefix == kF2 ? TileProduct::kInt8 : TileProduct::kInt8ByUint8, in);
  } else {
    return false;
  }
  return true;
}

void Handle(int signal, siginfo_t* /*info*/, void* context) {
  auto& state = *static_cast<ucontext_t*>(context);
  const std::optional<Instruction> in = Decoder(state).Decode();
  if (in && Execute(*in)) {
    state.uc_mcontext.gregs[REG_RIP] += in->length;
    executions.fetch_add(1, std::memory_order_relaxed);
  } else {
    sigaction(signal, &previous_action, nullptr);  // which the instruction meets when it runs again
  }
}

bool IsNeeded() { return IsaHas(kAvx512 | kAvx512Bf16 | kAvx512Vnni) && !IsaHas(kAmxBf16 | kAmxInt8); }

}  // namespace

TrappedTiles::TrappedTiles() : is_needed_(IsNeeded()) {
  if (!is_needed_) return;
  executions = 0;
  struct sigaction action = {};
  action.sa_sigaction = Handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &previous_action);
  GrantIsa(kAmxBf16 | kAmxInt8);
}

TrappedTiles::~TrappedTiles() {
  if (!is_needed_) return;
  GrantIsa(0);
  sigaction(SIGILL, &previous_action, nullptr);
}

int64_t TrappedTiles::executed() const { return is_needed_ ? executions.load() : -1; }

}  // namespace roofbench::kernels
#else
namespace roofbench::kernels {

TrappedTiles::TrappedTiles() : is_needed_(false) {}
TrappedTiles::~TrappedTiles() = default;
int64_t TrappedTiles::executed() const { return is_needed_ ? 0 : -1; }

}  // namespace roofbench::kernels
#endif
