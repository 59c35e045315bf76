// SPDX-License-Identifier: Apache-2.0
// Takes training steps with weights and tokens from a file, and writes the results, for test_transformer.py to compare
// with the same model in PyTorch.
//
//   transformer_steps INPUT OUTPUT impl:eager attention:sdpa dtype:fp32 optimizer:adamw_fused layers:2 heads:4 …
//
// INPUT: parameters in the model's order as fp32, then tokens and targets as int64, nothing between. OUTPUT, as fp32:
// logits, loss, gradients of all parameters, then the parameters after three steps.

#include <ATen/ops/empty.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "lib/models/training/trainer.h"

namespace roofbench::models {
namespace {

constexpr int kSteps = 3;

at::Tensor Read(std::ifstream& file, at::IntArrayRef shape, at::ScalarType type) {
  at::Tensor tensor = at::empty(shape, type);
  file.read(static_cast<char*>(tensor.mutable_data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  return tensor;
}

void Write(std::ofstream& file, const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().to(at::kFloat).contiguous();
  file.write(static_cast<const char*>(plain.const_data_ptr()), static_cast<std::streamsize>(plain.nbytes()));
}

int Run(int argc, char** argv) {
  std::map<std::string, std::string> settings;
  for (int i = 3; i < argc; ++i) {
    const std::string argument = argv[i];
    settings[argument.substr(0, argument.find(':'))] = argument.substr(argument.find(':') + 1);
  }
  const auto number = [&](const char* name) { return std::stoll(settings.at(name)); };
  const auto size = [&](const char* name) { return static_cast<double>(number(name)); };
  const workload::Transformer shape{.d_model = size("d_model"),
                                    .d_ff = size("d_ff"),
                                    .layers = size("layers"),
                                    .heads = size("heads"),
                                    .vocab = size("vocab")};
  std::ifstream input(argv[1], std::ios::binary);
  const bool low = settings.at("dtype") == "bf16";
  TransformerModel model(shape, number("context"),
                         {.heads = number("heads"),
                          .attention = settings.at("attention") == "naive" ? Attention::kNaive : Attention::kSdpa,
                          .layers = settings.at("impl") == "native" ? &NativeLayers() : &EagerLayers()},
                         [&](at::IntArrayRef sizes, double) {
                           const at::Tensor parameter = Read(input, sizes, at::kFloat);
                           return parameter.to(low ? at::kBFloat16 : at::kFloat).requires_grad_(true);
                         });
  const at::Tensor tokens = Read(input, {number("batch"), number("context")}, at::kLong);
  const at::Tensor targets = Read(input, {number("batch"), number("context")}, at::kLong);
  if (!input || input.peek() != std::ifstream::traits_type::eof()) {
    std::fprintf(stderr, "%s does not hold this model\n", argv[1]);
    return EXIT_FAILURE;
  }

  const std::vector<at::Tensor> parameters = model.Parameters();
  const std::map<std::string, MakeOptimizer> optimizers = {
      {"sgd", MakeSgd}, {"adamw", MakeAdamW}, {"adamw_foreach", MakeForeachAdamW}, {"adamw_fused", MakeFusedAdamW}};
  Trainer trainer(std::move(model), optimizers.at(settings.at("optimizer"))(parameters, OptimizerSettings{}),
                  settings.at("dtype") == "bf16_autocast");
  std::ofstream output(argv[2], std::ios::binary);
  Write(output, trainer.Logits(tokens));
  for (int i = 0; i < kSteps; ++i) {
    const at::Tensor loss = trainer.Forward(tokens, targets);
    trainer.Backward(loss);
    if (i == 0) {
      Write(output, loss);
      for (const at::Tensor& parameter : parameters) Write(output, parameter.grad());
    }
    trainer.Optimize();
  }
  for (const at::Tensor& parameter : parameters) Write(output, parameter);
  return output ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace roofbench::models

int main(int argc, char** argv) { return roofbench::models::Run(argc, argv); }
