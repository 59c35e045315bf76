// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/packed_rows.h"

#include <ATen/ops/empty.h>

#include <array>
#include <bit>

#include "lib/aten/elements.h"

namespace roofbench::models {
namespace {

using kernels::Range;
using Packing = PackedFormat::Packing;

// Where in a word the code of row 8·i + r lies: AWQ writes rows 0, 2, 4, 6, 1, 3, 5, 7.
constexpr std::array<unsigned, kCodesPerWord> kAwqShifts = {0, 16, 4, 20, 8, 24, 12, 28};
constexpr std::array<unsigned, kCodesPerWord> kGptqShifts = {0, 4, 8, 12, 16, 20, 24, 28};

uint8_t CodeAt(int32_t word, unsigned shift) {
  return static_cast<uint8_t>((std::bit_cast<uint32_t>(word) >> shift) & 15U);
}

}  // namespace

at::Tensor PackedRows::Dequantised() const {
  const int64_t rows = codes.size(0);
  const at::Tensor grouped = codes.to(at::kFloat).view({rows, zeros.size(1), -1});
  return grouped.sub_(zeros.unsqueeze(2)).mul_(scales.unsqueeze(2)).view({rows, -1});
}

int64_t PackedLayer::columns() const {
  return format.packing == Packing::kGptq ? qweight.size(0) * kCodesPerWord : qweight.size(0);
}

PackedRows PackedLayer::Rows(int64_t first, int64_t count) const {
  const bool is_gptq = format.packing == Packing::kGptq;
  const auto& shifts = is_gptq ? kGptqShifts : kAwqShifts;
  const int64_t k = columns();
  const int64_t groups = scales.size(0);
  PackedRows made{.codes = at::empty({count, k}, at::kByte),
                  .scales = scales.narrow(1, first, count).to(at::kFloat).t().contiguous(),
                  .zeros = at::empty({count, groups}, at::kFloat)};
  const auto* const words = qweight.const_data_ptr<int32_t>();
  const auto* const zero_words = qzeros.const_data_ptr<int32_t>();
  auto* const codes = made.codes.data_ptr<uint8_t>();
  auto* const zeros = made.zeros.data_ptr<float>();
  // Eight rows at a time: so many lie in a word, or beside one another.
  TorchThreads()(count / kCodesPerWord, [&](Range blocks) {
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      const int64_t to_row = block * kCodesPerWord;
      const int64_t in_words = first / kCodesPerWord + block;
      for (int64_t r = 0; r < kCodesPerWord; ++r) {
        const unsigned shift = shifts[static_cast<std::size_t>(r)];
        for (int64_t g = 0; g < groups; ++g) {
          const int32_t word = zero_words[g * (rows() / kCodesPerWord) + in_words];
          zeros[(to_row + r) * groups + g] = static_cast<float>(CodeAt(word, shift) + format.added_to_zeros);
        }
      }
      for (int64_t i = 0; i < qweight.size(0); ++i) {
        for (int64_t r = 0; r < kCodesPerWord; ++r) {
          uint8_t* const row = codes + (to_row + r) * k;
          if (!is_gptq) {
            row[i] = CodeAt(words[i * qweight.size(1) + in_words], shifts[static_cast<std::size_t>(r)]);
            continue;
          }
          const int32_t word = words[i * qweight.size(1) + first + to_row + r];
          for (int64_t c = 0; c < kCodesPerWord; ++c) {
            row[i * kCodesPerWord + c] = CodeAt(word, shifts[static_cast<std::size_t>(c)]);
          }
        }
      }
    }
  });
  return made;
}

}  // namespace roofbench::models
