// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/random.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "lib/kernels/simd/split_mix.h"

namespace roofbench {
namespace {

constexpr double kDeviationOf8Bits = 32;

// The generator of a block.
kernels::SplitMix64 BitsOf(uint64_t seed, uint64_t block) {
  return kernels::SplitMix64(kernels::SplitMix64::Mix(seed) + block * 0xd1342543de82ef95U);
}

constexpr int64_t kBlock = 1 << 16;  // elements that share a generator

// The normal distribution divided into classes of equal probability, each represented by its middle. 12 bits choose
// one.
constexpr int kClassBits = 12;
constexpr int kClasses = 1 << kClassBits;

using Classes = std::array<double, kClasses>;

// The inverse of the distribution by bisection, without another library. Not a lambda: GCC would take eight seconds of
// each build to try whether it is a constant.
Classes InverseNormal() {
  Classes made;
  for (int i = 0; i < kClasses; ++i) {
    const double wanted = (i + 0.5) / kClasses;
    double low = -6;
    double high = 6;
    for (int step = 0; step < 50; ++step) {
      const double middle = (low + high) / 2;
      (0.5 * std::erfc(-middle / std::sqrt(2.0)) < wanted ? low : high) = middle;
    }
    made[static_cast<std::size_t>(i)] = low;
  }
  return made;
}

const Classes& Normal() {
  static const auto* table = new Classes(InverseNormal());  // computed once
  return *table;
}

// fill(generator, begin, end) for each block of [0, n).
template <typename FillBlock>
void ForEachBlock(int64_t n, uint64_t seed, FillBlock fill) {
  at::parallel_for(0, (n + kBlock - 1) / kBlock, 1, [&](int64_t from, int64_t to) {
    for (int64_t block = from; block < to; ++block) {
      fill(BitsOf(seed, static_cast<uint64_t>(block)), block * kBlock, std::min(n, (block + 1) * kBlock));
    }
  });
}

template <typename T, typename Convert>
void Fill(T* data, int64_t n, uint64_t seed, Convert convert) {
  std::vector<T> values;
  for (const double normal : Normal()) values.push_back(convert(normal));
  ForEachBlock(n, seed, [&](kernels::SplitMix64 bits, int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end;) {
      uint64_t word = bits();
      for (int i = 0; i < 64 / kClassBits && at < end; ++i, word >>= kClassBits) data[at++] = values[word % kClasses];
    }
  });
}

void FillBits(uint8_t* data, int64_t n, uint64_t seed) {
  ForEachBlock(n, seed, [&](kernels::SplitMix64 bits, int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += 8) {
      const uint64_t word = bits();
      std::memcpy(data + at, &word, static_cast<std::size_t>(std::min<int64_t>(8, end - at)));
    }
  });
}

// The same distributions by the device's own generator: a host would take a second for a gigabyte, plus the copy.
void FillOnDevice(const at::Tensor& tensor, uint64_t seed, double deviation) {
  at::Generator generator = NewGenerator(tensor.device(), seed);
  const bool is_fp8 = tensor.scalar_type() == at::kFloat8_e4m3fn;
  if (tensor.is_floating_point() && !is_fp8) {
    tensor.normal_(0, deviation, generator);
    return;
  }
  if (tensor.scalar_type() == at::kByte) {
    tensor.random_(0, 256, generator);
    return;
  }
  TORCH_CHECK(is_fp8 || tensor.scalar_type() == at::kChar, "no random ", tensor.scalar_type());
  constexpr int64_t kPiece = int64_t{1} << 26;  // numbers that exist in fp32 at a time
  for (const at::Tensor& piece : tensor.view({-1}).split(kPiece)) {
    const at::Tensor values =
        at::empty(piece.sizes(), piece.options().dtype(at::kFloat)).normal_(0, kDeviationOf8Bits, generator);
    piece.copy_(is_fp8 ? values : values.round_().clamp_(-127, 127));
  }
}

}  // namespace

void FillRandom(const at::Tensor& tensor, uint64_t seed, double deviation) {
  TORCH_CHECK(tensor.is_contiguous());
  if (!tensor.is_cpu()) return FillOnDevice(tensor, seed, deviation);
  const int64_t n = tensor.numel();
  const auto scaled = [&](double normal) { return static_cast<float>(normal * deviation); };
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return Fill(tensor.data_ptr<float>(), n, seed, scaled);
    case at::kBFloat16:
      return Fill(tensor.data_ptr<at::BFloat16>(), n, seed, [&](double v) { return at::BFloat16(scaled(v)); });
    case at::kHalf:
      return Fill(tensor.data_ptr<at::Half>(), n, seed, [&](double v) { return at::Half(scaled(v)); });
    case at::kChar:
      return Fill(tensor.data_ptr<int8_t>(), n, seed, [](double v) {
        return static_cast<int8_t>(std::clamp(std::nearbyint(kDeviationOf8Bits * v), -127.0, 127.0));
      });
    case at::kFloat8_e4m3fn:
      return Fill(tensor.data_ptr<at::Float8_e4m3fn>(), n, seed,
                  [](double v) { return at::Float8_e4m3fn(static_cast<float>(kDeviationOf8Bits * v)); });
    case at::kByte:
      return FillBits(tensor.data_ptr<uint8_t>(), n, seed);
    default:
      TORCH_CHECK(false, "no random ", tensor.scalar_type());
  }
}

}  // namespace roofbench
