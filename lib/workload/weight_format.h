// SPDX-License-Identifier: Apache-2.0
// The storage formats of a language model's weights, and the arithmetic of its products in each.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "lib/workload/dtype.h"

namespace roofbench::workload {

// int8 and fp8 (e4m3): a scale per row. int4: a scale and a zero per group of a row. llm_int8: int8 rows and int8
// activations, outlier columns in 16 bits (Dettmers et al., "LLM.int8()", 2022).
enum class WeightFormat { kFp32, kBf16, kFp16, kInt8, kInt4, kLlmInt8, kFp8 };

inline constexpr std::array<WeightFormat, 7> kWeightFormats = {
    WeightFormat::kFp32, WeightFormat::kBf16,    WeightFormat::kFp16, WeightFormat::kInt8,
    WeightFormat::kInt4, WeightFormat::kLlmInt8, WeightFormat::kFp8};

// "fp32", "bf16", "fp16", "int8", "int4", "llm_int8", "fp8": as the axis `precision` spells them.
std::string_view Name(WeightFormat format);

// The inverse of Name; nullopt for any other text.
std::optional<WeightFormat> ParseWeightFormat(std::string_view name);

// The type of the vectors between products with quantized weights: bf16; fp16, as LLM.int8() was published; or bf16
// that is rounded to 8 bits before a product, with a scale per vector, so that products are made of integers. Those of
// llm_int8 always are.
enum class Activations { kDefault, kFp16, kInt8 };
inline constexpr std::array<std::string_view, 3> kActivationsNames = {"default", "fp16", "int8"};

// Whether a format supports such activations: fp16 where weights are quantized, int8 for int8 and int4.
bool TakesActivations(WeightFormat format, Activations activations);

// The format of the matrices that stay unquantized when linears are stored in `format`: the embedding, a mixture's
// router and LLM.int8()'s head.
WeightFormat UnquantizedFormat(WeightFormat format, Activations activations = Activations::kDefault);

// The storage type of the vectors between the products, and the multiplier of all unquantized work.
Dtype ActivationDtype(WeightFormat format, Activations activations = Activations::kDefault);

// The multiplier of a product with such a weight: that of the activations, except for llm_int8, and for formats with
// 8-bit activations where these are selected.
Dtype ProductDtype(WeightFormat format, Activations activations = Activations::kDefault);

// Whether the output head is quantized too by default: upstream's LLM.int8() leaves it in 16 bits.
bool QuantizesHead(WeightFormat format);

// Bytes of one matrix [rows, columns] with its scales. `group` is the length of int4's groups, which are stored in
// whole tiles of 16 rows.
double MatrixBytes(WeightFormat format, double rows, double columns, double group);

}  // namespace roofbench::workload
