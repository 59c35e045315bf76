// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/decoder_config.h"

#include <ATen/ops/empty.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/json.h"
#include "lib/models/checkpoint/architecture.h"

namespace roofbench::models {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;
using absl::UnimplementedError;
using nlohmann::json;

constexpr int kConfigDepth = 8;
// Larger than any model, and small enough that products of three of them stay exact in a double.
constexpr int64_t kLargestSize = 1 << 22;
// Of what nothing is multiplied with: JSON's largest whole number.
constexpr int64_t kLargestNumber = int64_t{1} << 53;

bool IsSet(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && models::IsSet(*found);
}

// What is left out, or null, is `otherwise`. What is no text is told as it stands, which is the name of nothing; of a
// long one so much as a person would read.
std::string TextOf(const json& object, const char* key, const char* otherwise) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return otherwise;
  return Shown(found->is_string() ? found->get<std::string>() : found->dump());
}

// As TextOf; what is no finite number is a NaN, which no check lets through.
double NumberOf(const json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return otherwise;
  return FiniteNumber(object, key).value_or(std::numeric_limits<double>::quiet_NaN());
}

// Reads sizes and remembers the first that is wrong.
class SizeReader {
 public:
  explicit SizeReader(const json& object) : object_(object) {}

  double operator()(const char* key) { return Required(key, kLargestSize); }
  double operator()(const char* key, double otherwise, int64_t largest = kLargestSize) {
    return IsSet(object_, key) ? Required(key, largest) : otherwise;
  }

  const absl::Status& status() const { return status_; }

 private:
  double Required(const char* key, int64_t largest) {
    const std::optional<int64_t> value = WholeNumber(object_, key, 1);
    if ((!value || *value > largest) && status_.ok()) {
      status_ = InvalidArgumentError(StrCat(key, " must be a whole number from 1 to ", largest));
    }
    return static_cast<double>(value.value_or(1));
  }

  const json& object_;
  absl::Status status_;
};

absl::Status ReadRope(const json& config, const Architecture& architecture, DecoderConfig& read) {
  // transformers 5 has everything in rope_parameters; before it, the base stood beside rope_scaling, which it takes
  // where there are both.
  static const json nothing = json::object();
  const json* rope = &nothing;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!IsSet(config, key) || config.at(key).empty()) continue;
    rope = &config.at(key);
    if (!rope->is_object()) return InvalidArgumentError(StrCat(key, " must be an object"));
  }
  // Of a type that is not known, its keys are not either.
  const std::string type = TextOf(*rope, "rope_type", TextOf(*rope, "type", "default").c_str());
  if (type != "default" && type != "llama3") {
    return UnimplementedError(StrCat("positions of rope_type '", type, "' (default and llama3 are)"));
  }
  if (absl::Status status = CheckRopeKeys(*rope); !status.ok()) return status;
  read.rope_theta = NumberOf(*rope, "rope_theta", NumberOf(config, "rope_theta", architecture.usual_theta));
  if (!(read.rope_theta > 1)) return InvalidArgumentError("rope_theta must be a number above 1");
  if (type == "default") return absl::OkStatus();
  const auto number = [&](const char* key) { return NumberOf(*rope, key, 0); };
  // transformers takes the number beside the object before the one in it, and all positions where there is none.
  constexpr char kOriginal[] = "original_max_position_embeddings";
  const double original = NumberOf(*rope, kOriginal, static_cast<double>(read.max_positions));
  const Llama3Rope stretched = {.factor = number("factor"),
                                .low_frequency = number("low_freq_factor"),
                                .high_frequency = number("high_freq_factor"),
                                .original_positions = NumberOf(config, kOriginal, original)};
  if (!(stretched.factor > 0 && stretched.low_frequency > 0 && stretched.high_frequency > stretched.low_frequency &&
        stretched.original_positions > 0)) {
    return InvalidArgumentError(
        "rope_parameters needs factor, low_freq_factor, a larger high_freq_factor, and an "
        "original_max_position_embeddings above 0 where there is one");
  }
  read.stretched = stretched;
  return absl::OkStatus();
}

std::vector<int64_t> StopIds(const json& config) {
  const auto found = config.find("eos_token_id");
  std::vector<int64_t> ids;
  if (found == config.end()) return ids;
  for (const json& id : found->is_array() ? *found : json::array({*found})) {
    if (id.is_number_integer()) ids.push_back(id.get<int64_t>());
  }
  return ids;
}

int64_t Whole(double size) { return static_cast<int64_t>(size); }

constexpr char kWindowed[] = "sliding_attention";
constexpr char kWhole[] = "full_attention";

// Whether a layer has a window where layer_types does not say it.
bool HasWindow(Windows windows, double first_windowed, int64_t layer) {
  switch (windows) {
    case Windows::kNone:
      return false;
    case Windows::kAll:
      return true;
    case Windows::kLate:
      return static_cast<double>(layer) >= first_windowed;
    case Windows::kAlternating:
      return layer % 2 == 0;
  }
  return false;
}

// layer_types, where it says something: nullptr where it does not.
absl::StatusOr<const json*> LayerTypes(const json& config, double layers) {
  const auto types = config.find("layer_types");
  if (types == config.end() || types->is_null()) return nullptr;
  if (!types->is_array()) return InvalidArgumentError("layer_types must be a list");
  if (types->empty()) return nullptr;  // for transformers, too
  if (static_cast<double>(types->size()) != layers) {
    return InvalidArgumentError(StrCat("layer_types must have an entry for each of the ", layers, " layers"));
  }
  return &*types;
}

// The window, and which layers it is for: those that layer_types names, where the architecture leaves that open.
absl::Status ReadWindow(const json& config, const Architecture& architecture, SizeReader& size, DecoderConfig& read) {
  const double layers = read.shape.base.layers;
  const absl::StatusOr<const json*> types = LayerTypes(config, layers);
  if (!types.ok()) return types.status();
  const bool is_late = architecture.windows == Windows::kLate;
  constexpr double kUsualFirst = 28;
  const double first = is_late ? NumberOf(config, "max_window_layers", kUsualFirst) : 0;
  if (!(first >= 0)) return InvalidArgumentError("max_window_layers must be a number of layers");
  double window = 0;
  if (architecture.windows != Windows::kNone && (!is_late || IsSet(config, "use_sliding_window"))) {
    window = config.contains("sliding_window") ? size("sliding_window", 0) : architecture.usual_window;
  }
  if (window == 0 && *types == nullptr) return absl::OkStatus();
  const bool is_open = window > 0 && (is_late || architecture.windows == Windows::kAlternating);
  std::set<int64_t> whole;
  for (int64_t layer = 0; layer < Whole(layers); ++layer) {
    bool has_window = window > 0 && HasWindow(architecture.windows, first, layer);
    if (*types != nullptr) {
      const json& type = (**types)[static_cast<std::size_t>(layer)];
      const bool is_known = is_open ? type == kWindowed || type == kWhole : type == (has_window ? kWindowed : kWhole);
      if (!is_known) {
        return UnimplementedError(
            StrCat("a model with layer_types other than ", has_window ? kWindowed : kWhole,
                   is_open ? StrCat(" and ", has_window ? kWhole : kWindowed) : " of all layers"));
      }
      has_window = type == kWindowed;
    }
    if (!has_window) whole.insert(layer);
  }
  if (static_cast<double>(whole.size()) == layers) return absl::OkStatus();  // no layer has it: there is none
  read.shape.window = window;
  read.shape.whole_layers = static_cast<double>(whole.size());
  read.whole_layers = std::move(whole);
  return absl::OkStatus();
}

// Above zero in fp32, too, which kernels compute in.
bool IsPositive(double number) {
  return number >= std::numeric_limits<float>::min() && number <= std::numeric_limits<float>::max();
}

// A bound of scores, which null takes away.
absl::Status ReadCap(const json& config, const char* key, double usual, double& cap) {
  const auto found = config.find(key);
  if (found != config.end() && found->is_null()) return absl::OkStatus();
  cap = NumberOf(config, key, usual);
  if (IsPositive(cap)) return absl::OkStatus();
  return InvalidArgumentError(StrCat(key, " must be a number above 0, or null"));
}

// What passes the gate, by the key that the architecture has for it.
absl::Status ReadGate(const json& config, const Architecture& architecture, DecoderConfig& read) {
  const bool is_gelu = architecture.is_gemma;
  constexpr char kGelu[] = "gelu_pytorch_tanh";
  const std::string act = TextOf(config, is_gelu ? "hidden_activation" : "hidden_act", is_gelu ? kGelu : "silu");
  if (is_gelu ? act != kGelu : act != "silu" && act != "swish") {
    return UnimplementedError(
        StrCat("the activation '", act, "' (", is_gelu ? StrCat(kGelu, " is)") : "silu, also called swish, is)"));
  }
  read.gate = is_gelu ? Gate::kGeluTanh : Gate::kSilu;
  return absl::OkStatus();
}

// What Gemma's models have beside the others (arXiv:2408.00118, and transformers' configuration for what is left out).
absl::Status ReadGemma(const json& config, DecoderConfig& read) {
  constexpr double kUsualScalar = 256;
  constexpr double kUsualScoreCap = 50;
  constexpr double kUsualLogitCap = 30;
  read.shape.output_norms = read.shape.fp32_norms = true;
  read.norm_offset = 1;
  read.embedding_scale = std::sqrt(read.shape.base.d_model);
  const double scalar = NumberOf(config, "query_pre_attn_scalar", kUsualScalar);
  if (!IsPositive(scalar)) return InvalidArgumentError("query_pre_attn_scalar must be a number above 0");
  read.score_scale = 1 / std::sqrt(scalar);
  absl::Status status = ReadCap(config, "attn_logit_softcapping", kUsualScoreCap, read.score_cap);
  status.Update(ReadCap(config, "final_logit_softcapping", kUsualLogitCap, read.logit_cap));
  return status;
}

}  // namespace

DecoderSizes::DecoderSizes(const workload::Decoder& shape)
    : d(Whole(shape.base.d_model)),
      ff(Whole(shape.base.d_ff)),
      heads(Whole(shape.base.heads)),
      kv_heads(Whole(shape.base.KvHeads())),
      dim(Whole(shape.base.HeadDim())),
      layers(Whole(shape.base.layers)),
      vocab(Whole(shape.base.vocab)),
      experts(Whole(shape.experts)),
      active_experts(Whole(shape.active_experts)) {}

int64_t DecoderConfig::WindowOf(int64_t layer) const { return whole_layers.contains(layer) ? 0 : Whole(shape.window); }

std::set<int64_t> DecoderConfig::Windows() const {
  std::set<int64_t> windows;
  for (int64_t layer = 0; layer < Whole(shape.base.layers); ++layer) windows.insert(WindowOf(layer));
  return windows;
}

DecoderConfig ConfigOf(const workload::DecoderPreset& preset) {
  DecoderConfig config{.shape = preset.shape, .rope_theta = preset.rope_theta};
  if (preset.llama3_rope) config.stretched = Llama3Rope{.factor = preset.rope_factor};
  return config;
}

absl::StatusOr<DecoderConfig> ParseConfig(std::string_view text) {
  const absl::StatusOr<json> parsed = ParseJsonObject(text, kConfigDepth);
  if (!parsed.ok()) return InvalidArgumentError(StrCat("it ", parsed.status().message()));
  const json& config = *parsed;
  const std::string type = TextOf(config, "model_type", "");
  const Architecture* const architecture = FindArchitecture(type);
  if (architecture == nullptr) {
    return UnimplementedError(StrCat("models of the type '", type, "' (", ArchitectureNames(), " are)"));
  }
  DecoderConfig read;
  if (absl::Status status = ReadGate(config, *architecture, read); !status.ok()) return status;
  if (absl::Status status = CheckKeys(config, *architecture); !status.ok()) return status;
  SizeReader size(config);
  workload::Transformer& base = read.shape.base;
  base = {.d_model = size("hidden_size"),
          .d_ff = size("intermediate_size"),
          .layers = size("num_hidden_layers"),
          .heads = size("num_attention_heads"),
          .vocab = size("vocab_size"),
          .tied_head =
              config.contains("tie_word_embeddings") ? IsSet(config, "tie_word_embeddings") : architecture->tied_head};
  // Where it is left out, transformers takes another number for each of the other architectures.
  const bool implied = architecture->implied_kv_heads || config.contains("num_key_value_heads");
  base.kv_heads = implied ? size("num_key_value_heads", base.heads) : size("num_key_value_heads");
  const double head_size = architecture->head_size;
  base.head_size = size("head_dim", head_size > 0 ? head_size : std::floor(base.d_model / base.heads));
  read.shape.attention_bias = architecture->attention_bias;
  read.shape.head_norms = architecture->head_norms;
  if (!size.status().ok()) return size.status();
  if (absl::Status status = ReadWindow(config, *architecture, size, read); !status.ok()) return status;
  if (architecture->mixture) {
    read.shape.experts = size("num_local_experts");
    read.shape.active_experts = size("num_experts_per_tok");
  }
  read.max_positions =
      static_cast<int64_t>(size("max_position_embeddings", architecture->usual_positions, kLargestNumber));
  if (!size.status().ok()) return size.status();
  if (std::fmod(base.heads, base.kv_heads) != 0) {
    return InvalidArgumentError("num_attention_heads must be a multiple of num_key_value_heads");
  }
  if (std::fmod(base.head_size, 2) != 0) return InvalidArgumentError("head_dim must be even: RoPE turns pairs");
  if (read.shape.active_experts > read.shape.experts) {
    return InvalidArgumentError("num_experts_per_tok must not exceed num_local_experts");
  }
  read.rms_epsilon = NumberOf(config, "rms_norm_eps", architecture->usual_rms_epsilon);
  if (!(read.rms_epsilon > 0)) return InvalidArgumentError("rms_norm_eps must be a number above 0");
  if (architecture->is_gemma) {
    if (absl::Status status = ReadGemma(config, read); !status.ok()) return status;
  }
  if (absl::Status status = ReadRope(config, *architecture, read); !status.ok()) return status;
  read.stop_ids = StopIds(config);
  if (IsSet(config, "quantization_config")) {
    absl::StatusOr<PackedFormat> packed = ParseQuantizationConfig(config.at("quantization_config"));
    if (!packed.ok()) return packed.status();
    read.packed = *packed;
  }
  return read;
}

absl::StatusOr<std::vector<int64_t>> ParseStopIds(std::string_view text) {
  const absl::StatusOr<json> parsed = ParseJsonObject(text, kConfigDepth);
  if (!parsed.ok()) return InvalidArgumentError(StrCat("it ", parsed.status().message()));
  return StopIds(*parsed);
}

at::Tensor InverseFrequencies(const DecoderConfig& config) {
  const auto dim = static_cast<int64_t>(config.shape.base.HeadDim());
  at::Tensor frequencies = at::empty({dim / 2}, at::kDouble);
  for (int64_t i = 0; i < dim / 2; ++i) {
    double frequency = std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    if (config.stretched) {
      const Llama3Rope& rope = *config.stretched;
      const double turns = rope.original_positions * frequency / (2 * std::numbers::pi);  // over the original positions
      if (turns < rope.low_frequency) {
        frequency /= rope.factor;
      } else if (turns < rope.high_frequency) {
        const double share = (turns - rope.low_frequency) / (rope.high_frequency - rope.low_frequency);
        frequency = (1 - share) * frequency / rope.factor + share * frequency;
      }
    }
    frequencies.data_ptr<double>()[i] = frequency;
  }
  return frequencies;
}

}  // namespace roofbench::models
