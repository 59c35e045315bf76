// SPDX-License-Identifier: Apache-2.0
// Checkpoints from untrusted sources: valid ones of random shapes, with changes of some of their text, numbers or
// bytes. Each is refused with a reason, or computes a result: it must not crash, nor read or write outside of its
// memory. A seed selects the case. A long run, best with the preset asan:
//
//   ROOFBENCH_FUZZ_ROUNDS=20000 build/asan/bin/models_test --gtest_filter='UntrustedCheckpoints.*' 2>&1 | tail
//
// ROOFBENCH_FUZZ_FIRST=n begins with round n; the last line names the round that ended the process.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/models/checkpoint/checkpoint.h"
#include "lib/models/decoding/decoder_model.h"
#include "lib/models/decoding/eager_decoder.h"
#include "lib/models/generation/generation.h"
#include "lib/models/make_decoder.h"
#include "nlohmann/json.hpp"
#include "tests/models/checkpoint/written_checkpoint.h"

namespace roofbench::models {
namespace {

// The same numbers on every machine, which the distributions of the standard library do not guarantee.
class Dice {
 public:
  explicit Dice(uint64_t seed) : bits_(seed) {}

  uint64_t Bits() { return bits_(); }
  std::size_t Below(std::size_t count) { return static_cast<std::size_t>(bits_() % count); }
  bool OneIn(std::size_t count) { return Below(count) == 0; }
  template <typename T>
  const T& Of(const std::vector<T>& choices) {
    return choices[Below(choices.size())];
  }
  // Approximately normal.
  float Small() {
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>(Below(2001)) / 1000 - 1;
    return sum / 4;
  }

 private:
  std::mt19937_64 bits_;
};

class UntrustedCheckpoint {
 public:
  explicit UntrustedCheckpoint(uint64_t seed) : dice_(seed) {
    MakeConfig();
    MakeTensors();
    for (std::size_t changes = dice_.Below(3); changes > 0; --changes) Change();
    Finish();
  }

  void WriteTo(const TemporaryFolder& folder) const {
    folder.Write("config.json", config_text_);
    folder.Write("model.safetensors", file_);
    if (!index_.empty()) folder.Write("model.safetensors.index.json", index_);
  }

  Dice& dice() { return dice_; }

 private:
  using Json = nlohmann::json;

  struct Tensor {
    std::string name;
    RequiredTensor required;
    std::vector<float> values;  // of words, their bits
  };

  void MakeConfig() {
    const auto type = dice_.Of<std::string>({"llama", "mixtral", "mixtral", "mistral", "qwen2", "qwen3", "gemma2"});
    const bool is_mixture = type == "mixtral";
    const bool fits_int4 = dice_.OneIn(2);
    const auto size = [&](const std::vector<int64_t>& whole, const std::vector<int64_t>& any) {
      return dice_.Of(fits_int4 ? whole : any);
    };
    const int64_t heads = dice_.Of<int64_t>({1, 2, 4});
    const int64_t kv_heads = heads == 4 ? dice_.Of<int64_t>({1, 2, 4}) : heads;
    int64_t dim = size({16, 32}, {2, 6, 8, 10, 12, 34, 100, 130, 258});
    if (fits_int4 && heads * dim % 32 != 0) dim = 32;
    config_ = {{"model_type", type},
               {"num_attention_heads", heads},
               {"num_key_value_heads", kv_heads},
               {"head_dim", dim},
               {"hidden_size", size({32, 64}, {1, 2, 8, 20, 33, 64})},
               {"intermediate_size", size({32, 64}, {1, 12, 40, 65})},
               {"vocab_size", size({16, 48}, {1, 2, 10, 33})},
               {"num_hidden_layers", dice_.Of<int64_t>({1, 2})},
               {"tie_word_embeddings", dice_.OneIn(2)},
               {"rms_norm_eps", 1e-5},
               {"rope_theta", 10000.0},
               {"hidden_act", "silu"},
               {"eos_token_id", 1},
               {"max_position_embeddings", 64}};
    if (is_mixture) {
      const int64_t experts = dice_.Of<int64_t>({1, 2, 4, 5});
      config_["num_local_experts"] = experts;
      config_["num_experts_per_tok"] = 1 + static_cast<int64_t>(dice_.Below(static_cast<std::size_t>(experts)));
    }
    if ((is_mixture || type == "mistral") && dice_.OneIn(2)) config_["sliding_window"] = dice_.Of<int64_t>({1, 2, 5});
    if (type == "gemma2") {
      config_["sliding_window"] = dice_.Of<int64_t>({1, 2, 5, 4096});
      config_["query_pre_attn_scalar"] = dice_.Of<double>({1, 16, 256});
      if (dice_.OneIn(2)) config_["attn_logit_softcapping"] = dice_.Of<double>({1e-30, 3, 50, 1e30});
      if (dice_.OneIn(2)) config_["final_logit_softcapping"] = dice_.Of<double>({1e-30, 3, 30, 1e30});
    }
    if (type.starts_with("qwen") && dice_.OneIn(2)) {
      config_.update({{"use_sliding_window", true}, {"sliding_window", 3}, {"max_window_layers", 1}});
    }
    if (dice_.OneIn(3)) {
      config_["rope_parameters"] = {{"rope_type", "llama3"},
                                    {"factor", 8.0},
                                    {"low_freq_factor", 1.0},
                                    {"high_freq_factor", 4.0},
                                    {"original_max_position_embeddings", 32}};
    }
    if (!dice_.OneIn(6)) return;
    const bool is_awq = dice_.OneIn(2);
    Json& packed = config_["quantization_config"];
    packed = {{"quant_method", is_awq ? "awq" : "gptq"}, {"bits", 4}};
    packed["group_size"] = dice_.Of<int64_t>({-1, 16, 32, 32});
    packed.update(is_awq ? Json{{"zero_point", true}, {"version", "gemm"}}
                         : Json{{"desc_act", false}, {"sym", dice_.OneIn(2)}});
  }

  // Those that the configuration implies. Any bits are valid codes of 4-bit layers.
  void MakeTensors() {
    const DecoderConfig config = ParseConfig(config_.dump()).value();
    const auto required = RequiredTensors(config);
    if (!required.ok()) return Add("model.norm.weight", {{1}});  // of shapes that do not fit 4 bits
    for (const auto& [name, tensor] : *required) {
      Add(name, tensor);
      constexpr std::string_view kCodes = "qweight";
      if (!name.ends_with(kCodes) || config.packed->packing != PackedFormat::Packing::kGptq || dice_.OneIn(2)) continue;
      const int64_t columns = tensor.shape[0] * kCodesPerWord;
      Add(name.substr(0, name.size() - kCodes.size()) + "g_idx", {{columns}, true});
      std::vector<float>& order = tensors_.back().values;
      for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] =
            std::bit_cast<float>(static_cast<uint32_t>(i) / static_cast<uint32_t>(config.packed->GroupOf(columns)));
      }
    }
  }

  void Add(const std::string& name, const RequiredTensor& required) {
    std::size_t count = 1;
    for (const int64_t size : required.shape) count *= static_cast<std::size_t>(size);
    Tensor tensor{name, required, std::vector<float>(count)};
    for (float& value : tensor.values) {
      value = required.is_words ? std::bit_cast<float>(static_cast<uint32_t>(dice_.Bits())) : dice_.Small();
    }
    tensors_.push_back(std::move(tensor));
  }

  // Values first, because readers trust them most: other changes are mostly refused.
  void Change() {
    switch (dice_.Below(12)) {
      case 0:
        return ChangeConfig();
      case 1:
        after_ = After::kHeader;
        return;
      case 2:
        after_ = After::kBytes;
        return;
      case 3:
        after_ = After::kFiles;
        return;
      default:
        return ChangeValues();
    }
  }

  // Rarely NaN or infinite: a tensor with such a number is not even stored.
  float OddNumber() {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    if (dice_.OneIn(16)) return dice_.Of<float>({std::nanf(""), kInfinity, -kInfinity});
    return dice_.Of<float>({3e38F, -3e38F, 1e-45F, 65504, 70000, 0, 2e19F, -1e30F, 1e9F});
  }

  void ChangeValues() {
    Tensor& tensor = tensors_[dice_.Below(tensors_.size())];
    const std::size_t kind = dice_.Below(4);
    const float odd = OddNumber();
    if (kind == 0) tensor.values[dice_.Below(tensor.values.size())] = odd;
    if (kind == 1) std::fill(tensor.values.begin(), tensor.values.end(), odd);
    for (float& value : tensor.values) {
      if (kind == 2) value *= std::bit_cast<float>(static_cast<uint32_t>(dice_.Bits()) & 0xbf7fffffU);
      if (kind == 3) value *= 1e19F;
    }
  }

  Json OddJson() {
    static const Json odd = Json::parse(R"([0, -1, 1, 2, 3, 4, 7, 16, 4194304, 4294967296, 1e308, 1e-308, -0.0, 1.5,
        9223372036854775807, -9223372036854775808, 18446744073709551615, true, false, null,
        "", "x", "\u001b[31m", "8", "gptq", "awq", [], [1, "x", -5, 1e300], {}, {"rope_type": "llama3"},
        {"type": "yarn"}, {"type": "yarn", "factor": 4}, {"type": "dynamic", "factor": 2},
        {"type": "linear", "factor": 1e300}, {"type": "longrope", "short_factor": [1], "long_factor": [2]},
        {"quant_method": "gptq", "bits": 4, "group_size": -1},
        {"quant_method": "awq", "bits": 4, "group_size": 32}])");
    return odd[dice_.Below(odd.size())];
  }

  void ChangeConfig() {
    if (dice_.OneIn(4)) {
      config_[dice_.Of<std::string>({"attention_bias", "sliding_window", "rope_scaling", "quantization_config",
                                     "eos_token_id", "rope_parameters", "mlp_bias", "layer_types", "use_sliding_window",
                                     "max_window_layers", "head_dim"})] = OddJson();
      return;
    }
    Json* object = &config_;
    if (config_.contains("rope_parameters") && config_["rope_parameters"].is_object() && dice_.OneIn(3)) {
      object = &config_["rope_parameters"];
    }
    if (config_.contains("quantization_config") && config_["quantization_config"].is_object() && dice_.OneIn(2)) {
      object = &config_["quantization_config"];
    }
    if (object->empty()) return;
    auto chosen = object->begin();
    std::advance(chosen, dice_.Below(object->size()));
    if (dice_.OneIn(6)) {
      object->erase(chosen);
    } else {
      *chosen = OddJson();
    }
  }

  void ChangeHeader(Json& header) {
    auto chosen = header.begin();
    std::advance(chosen, dice_.Below(header.size()));
    Json& fields = *chosen;
    switch (dice_.Below(5)) {
      case 0:
        header.erase(chosen);
        return;
      case 1:
        fields = OddJson();
        return;
      case 2:
        fields["dtype"] =
            dice_.Of<std::string>({"F64", "F32", "F16", "BF16", "I64", "I32", "I8", "U8", "BOOL", "F4", ""});
        return;
      case 3:
        fields["shape"] =
            dice_.Of<Json>({Json::array(), {0}, {-1}, {1, 1}, {uint64_t{1} << 53, 1024}, {1.5}, OddJson()});
        return;
      default:
        fields["data_offsets"] =
            dice_.Of<Json>({{0, 0}, {4, 0}, {0, uint64_t{1} << 53}, {-4, 4}, {0}, {UINT64_MAX, 4}, OddJson()});
    }
  }

  void ChangeBytes(std::string& text) {
    if (text.empty()) return;
    for (std::size_t changes = 1 + dice_.Below(4); changes > 0 && !text.empty(); --changes) {
      const std::size_t at = dice_.Below(dice_.OneIn(2) ? text.size() : std::min<std::size_t>(text.size(), 64));
      switch (dice_.Below(5)) {
        case 0:
          text[at] = static_cast<char>(dice_.Bits());
          break;
        case 1:
          text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1U << dice_.Below(8)));
          break;
        case 2:
          text.resize(at);
          break;
        case 3:
          text.insert(at, 1 + dice_.Below(9), static_cast<char>(dice_.Bits()));
          break;
        default:
          text.erase(at, 1 + dice_.Below(9));
      }
    }
  }

  // The bytes of a value in the precision of its tensor.
  static std::string Bytes(float value, const std::string& type) {
    std::string bytes;
    const auto append = [&](auto number) { bytes.assign(reinterpret_cast<const char*>(&number), sizeof(number)); };
    if (type == "I32" || type == "F32") append(value);
    if (type == "F64") append(static_cast<double>(value));
    if (type == "BF16") append(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    // Any 16 bits are a valid fp16 number.
    if (type == "F16") append(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 15));
    return bytes;
  }

  void Finish() {
    const std::string type = dice_.Of<std::string>({"F32", "F32", "BF16", "F16", "F64"});
    Json header = {{"__metadata__", {{"format", "pt"}}}};
    std::string data;
    for (const Tensor& tensor : tensors_) {
      const std::size_t begin = data.size();
      const std::string of = tensor.required.is_words ? "I32" : type;
      for (const float value : tensor.values) data += Bytes(value, of);
      header[tensor.name] = {{"dtype", of}, {"shape", tensor.required.shape}, {"data_offsets", {begin, data.size()}}};
    }
    if (after_ == After::kHeader) ChangeHeader(header);
    config_text_ = config_.dump(-1, ' ', false, Json::error_handler_t::replace);
    file_ = SafetensorsText(header.dump(-1, ' ', false, Json::error_handler_t::replace), data);
    if (after_ == After::kBytes) ChangeBytes(dice_.OneIn(3) ? config_text_ : file_);
    if (after_ != After::kFiles) return;
    index_ = dice_
                 .Of<Json>({{{"weight_map", {{"a", "model.safetensors"}}}},
                            {{"weight_map", {{"a", "model.safetensors"}, {"b", "config.json"}}}},
                            {{"weight_map", {{"a", "../model.safetensors"}}}},
                            {{"weight_map", {{"a", "."}}}},
                            {{"weight_map", {{"a", OddJson()}}}},
                            {{"weight_map", OddJson()}}})
                 .dump();
    if (dice_.OneIn(2)) ChangeBytes(index_);
  }

  enum class After { kNothing, kHeader, kBytes, kFiles };

  Dice dice_;
  Json config_;
  std::vector<Tensor> tensors_;
  After after_ = After::kNothing;
  std::string config_text_;
  std::string file_;
  std::string index_;
};

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

at::Tensor Prompt(Dice& dice, int64_t batch, int64_t vocab) {
  at::Tensor prompt = at::empty({batch, 1 + static_cast<int64_t>(dice.Below(6))}, at::kLong);
  for (int64_t i = 0; i < prompt.numel(); ++i) {
    prompt.data_ptr<int64_t>()[i] = static_cast<int64_t>(dice.Below(static_cast<std::size_t>(vocab)));
  }
  return prompt;
}

// Runs one case of generation. Returns its outcome.
std::string Generate(const DecoderWeights& weights, const std::string& implementation, Dice& dice) {
  const auto vocab = static_cast<int64_t>(weights.config.shape.base.vocab);
  const int64_t batch = dice.Of<int64_t>({1, 1, 2, 3});
  constexpr int64_t kNew = 3;
  const at::Tensor prompt = Prompt(dice, batch, vocab);
  auto decoder =
      MakeDecoder(implementation, weights, {.batch = batch, .capacity = prompt.size(1) + kNew}, /*threads=*/2);
  if (!decoder.ok()) return "no decoder";
  Generation generation(*std::move(decoder), vocab,
                        {.prompt = prompt,
                         .most_new = kNew,
                         .stop_ids = weights.config.stop_ids,
                         .choice = {.top_k = dice.Of<int64_t>({1, 200}), .temperature = 0.8, .seed = 1}});
  generation.Run([] {});
  for (int64_t b = 0; b < batch; ++b) {
    for (const int64_t id : generation.Ids(b)) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, vocab);
    }
  }
  for (const at::Tensor& read : generation.Read()) {
    EagerDecoder exact(weights, read.size(0), read.size(1), Arithmetic::kExact);
    exact.Append(read);
  }
  return "tokens";
}

std::string Try(uint64_t seed) {
  UntrustedCheckpoint untrusted(seed);
  Dice& dice = untrusted.dice();
  const TemporaryFolder folder;
  untrusted.WriteTo(folder);
  const auto checkpoint = Checkpoint::Open(folder.path());
  if (!checkpoint.ok()) {
    EXPECT_FALSE(checkpoint.status().message().empty());
    return "refused";
  }
  if (dice.OneIn(16)) {
    const std::string path = folder.path() + "/model.safetensors";
    std::filesystem::resize_file(path, dice.Below(std::filesystem::file_size(path)));
  }
  const std::vector<workload::WeightFormat> formats(std::begin(workload::kWeightFormats),
                                                    std::end(workload::kWeightFormats));
  Storage storage = DefaultStorage(checkpoint->config(), dice.Of(formats));
  storage.group = dice.OneIn(8) ? 64 : 32;
  if (dice.OneIn(3)) storage.skipped.insert(kLinearRoles[dice.Below(kLinearRoles.size())]);
  if (dice.OneIn(3)) storage.outlier_threshold = 0;
  storage.int8_cache = dice.OneIn(3);
  const auto weights = LoadWeights(*checkpoint, storage);
  if (!weights.ok()) return absl::IsUnimplemented(weights.status()) ? "format does not fit" : "not loaded";
  const at::NoGradGuard no_grad;
  std::string outcome;
  for (const char* implementation : {"eager", "native"}) {
    try {
      outcome = Generate(*weights, implementation, dice);
    } catch (const std::exception&) {
      outcome = "failed";  // as a case does
    }
  }
  return outcome;
}

TEST(UntrustedCheckpoints, AreRefusedOrCompute) {
  const bool by_hand = std::getenv("ROOFBENCH_FUZZ_ROUNDS") != nullptr;
  const int64_t first = FromEnvironment("ROOFBENCH_FUZZ_FIRST", 0);
  const int64_t rounds = FromEnvironment("ROOFBENCH_FUZZ_ROUNDS", 200);
  std::map<std::string, int64_t> outcomes;
  for (int64_t round = first; round < first + rounds; ++round) {
    if (by_hand) std::fprintf(stderr, "round %lld\n", static_cast<long long>(round));
    ++outcomes[Try(static_cast<uint64_t>(round))];
  }
  for (const auto& [what, count] : outcomes) {
    std::printf("%s: %lld\n", what.c_str(), static_cast<long long>(count));
    RecordProperty(what, std::to_string(count));
  }
  // Many attempts must reach the arithmetic; otherwise they test only the parser.
  if (rounds >= 100) {
    EXPECT_GT(outcomes["tokens"] + outcomes["failed"], rounds / 5);
  }
}

}  // namespace
}  // namespace roofbench::models
