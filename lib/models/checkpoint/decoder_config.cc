// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/decoder_config.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/base/json.h"

namespace roofbench::models {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;
using absl::UnimplementedError;
using nlohmann::json;
using std::string_view;

constexpr int kConfigDepth = 8;
// Larger than any model, and small enough that products of three sizes stay exact in a double.
constexpr int64_t kLargestSize = 1 << 22;
// For numbers that nothing is multiplied with: JSON's largest whole number.
constexpr int64_t kLargestNumber = int64_t{1} << 53;

// Which layers have a window, unless layer_types (which takes precedence for the last two) says so: none, all, those
// from max_window_layers on if use_sliding_window is set, or the first, the third and so on.
enum class Windows { kNone, kAll, kLate, kAlternating };

// A model type whose checkpoints we read. The defaults are those of transformers' configuration of the architecture.
struct Architecture {
  string_view type;      // model_type
  bool mixture = false;  // of experts, as Mixtral names them
  Windows windows = Windows::kNone;
  bool attention_bias = false;    // of queries, keys and values, whatever the configuration says
  bool head_norms = false;        // of queries and keys
  bool implied_kv_heads = false;  // num_key_value_heads defaults to the number of heads
  double head_size = 0;           // default of head_dim; 0: hidden_size / num_attention_heads
  bool tied_head = false;         // default of tie_word_embeddings
  bool is_gemma = false;          // norms of outputs, one added to norm weights, scaled embedding, GELU, and caps
  double usual_window = 0;        // default of sliding_window; 0: none
  double usual_positions = 2048;
  double usual_theta = 10000;
  double usual_rms_epsilon = 1e-6;
  string_view keys = {};  // in addition to the keys that all have
};

// Keys of config.json, separated by single spaces. Unknown keys are refused by name, because they may change the
// result.
constexpr string_view kWindowKeys = "sliding_window";
constexpr string_view kMixtralKeys =
    "sliding_window num_local_experts num_experts_per_tok router_aux_loss_coef router_jitter_noise "
    "output_router_logits";
constexpr string_view kQwen3Keys = "sliding_window max_window_layers use_sliding_window";
// Qwen2 has biases regardless of attention_bias.
constexpr string_view kQwen2Keys = "sliding_window max_window_layers use_sliding_window attention_bias";
// Older conversions have sliding_window_size and cache_implementation, which are never read.
constexpr string_view kGemma2Keys =
    "sliding_window sliding_window_size cache_implementation query_pre_attn_scalar attn_logit_softcapping "
    "final_logit_softcapping hidden_activation";

constexpr Architecture kArchitectures[] = {
    {.type = "llama", .implied_kv_heads = true},
    {.type = "mistral", .windows = Windows::kAll, .usual_window = 4096, .usual_positions = 131072, .keys = kWindowKeys},
    {.type = "mixtral",
     .mixture = true,
     .windows = Windows::kAll,
     .usual_positions = 131072,
     .usual_theta = 1000000,
     .usual_rms_epsilon = 1e-5,
     .keys = kMixtralKeys},
    {.type = "qwen2",
     .windows = Windows::kLate,
     .attention_bias = true,
     .usual_window = 4096,
     .usual_positions = 32768,
     .keys = kQwen2Keys},
    {.type = "qwen3",
     .windows = Windows::kLate,
     .head_norms = true,
     .head_size = 128,
     .usual_window = 4096,
     .usual_positions = 32768,
     .keys = kQwen3Keys},
    {.type = "gemma2",
     .windows = Windows::kAlternating,
     .head_size = 256,
     .tied_head = true,
     .is_gemma = true,
     .usual_window = 4096,
     .usual_positions = 8192,
     .keys = kGemma2Keys},
};

// Read for every architecture.
constexpr string_view kReadKeys =
    "model_type hidden_act hidden_size intermediate_size num_hidden_layers num_attention_heads vocab_size "
    "tie_word_embeddings num_key_value_heads head_dim rms_norm_eps max_position_embeddings rope_theta rope_scaling "
    "rope_parameters layer_types eos_token_id original_max_position_embeddings quantization_config";

// Keys that transformers writes and that do not affect the logits: those of its PretrainedConfig (releases 4 and 5),
// those of training, and notes of other tools (max_sequence_length: of Llama 1's conversions).
constexpr string_view kHarmlessKeys =
    "add_cross_attention architectures attention_dropout attn_implementation auto_map bad_words_ids "
    "begin_suppress_tokens bos_token_id chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id "
    "diversity_penalty do_sample dtype early_stopping embd_pdrop encoder_no_repeat_ngram_size epsilon_cutoff "
    "eta_cutoff experts_implementation exponential_decay_length_penalty finetuning_task forced_bos_token_id "
    "forced_eos_token_id gradient_checkpointing hidden_dropout id2label initializer_range is_decoder "
    "is_encoder_decoder is_llama_config label2id length_penalty max_length max_sequence_length min_length "
    "name_or_path no_repeat_ngram_size num_beam_groups num_beams num_labels num_return_sequences output_attentions "
    "output_hidden_states output_scores pad_token_id prefix pretraining_tp problem_type pruned_heads "
    "remove_invalid_values repetition_penalty resid_pdrop return_dict return_dict_in_generate sep_token_id "
    "suppress_tokens task_specific_params temperature tf_legacy_loss tie_encoder_decoder tie_last_hidden_states "
    "tokenizer_class top_k top_p torch_dtype torchscript transformers.js_config transformers_version typical_p "
    "unsloth_fixed unsloth_version use_bfloat16 use_cache";

constexpr string_view kRopeKeys =
    "rope_type type rope_theta factor low_freq_factor high_freq_factor original_max_position_embeddings";

// Keys that are read, and keys that record how the codes were found or how other programs run them.
constexpr string_view kGptqKeys =
    "quant_method bits group_size desc_act sym checkpoint_format pack_dtype backend batch_size "
    "block_name_to_quantize cache_block_outputs damp_percent dataset disable_exllama exllama_config "
    "max_input_length meta model_file_base_name model_name_or_path model_seqlen module_name_preceding_first_block "
    "modules_in_block_to_quantize pad_token_id static_groups tokenizer true_sequential use_cuda_fp16 use_exllama";
constexpr string_view kAwqKeys =
    "quant_method bits w_bit group_size q_group_size zero_point version backend do_fuse exllama_config "
    "fuse_max_seq_len modules_to_fuse modules_to_not_convert";

bool Has(string_view keys, string_view key) {
  while (!keys.empty()) {
    const string_view known = keys.substr(0, keys.find(' '));
    if (known == key) return true;
    keys.remove_prefix(std::min(keys.size(), known.size() + 1));
  }
  return false;
}

// Neither null nor false.
bool IsSet(const json& value) { return !value.is_null() && !(value.is_boolean() && !value.get<bool>()); }

bool IsSet(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && IsSet(*found);
}

// The part of an untrusted text that a message quotes.
std::string Shown(const std::string& text) { return text.substr(0, 60); }

// `otherwise` if the key is missing or null. Other JSON values are returned as JSON text, which no name matches.
std::string TextOf(const json& object, const char* key, const char* otherwise) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return otherwise;
  return Shown(found->is_string() ? found->get<std::string>() : found->dump());
}

// As TextOf; NaN, which no check accepts, unless the value is a finite number.
double NumberOf(const json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return otherwise;
  return FiniteNumber(object, key).value_or(std::numeric_limits<double>::quiet_NaN());
}

absl::Status UnknownKey(const std::string& key, const char* where) {
  return UnimplementedError(StrCat("a model with ", Shown(key), where,
                                   ", whose effect is not known (set it to null if the logits do not depend on it)"));
}

// A key set to its default: all pairs of a head are turned.
bool IsUsual(string_view key, const json& value) { return key == "partial_rotary_factor" && value == 1; }

absl::Status CheckKeys(const json& config, const Architecture& architecture) {
  for (const auto& [key, value] : config.items()) {
    // The one key whose absence means true: without causality transformers lets tokens see later ones.
    if (key == "is_causal") {
      if (IsSet(value)) continue;
      return UnimplementedError("a model with is_causal: false");
    }
    // Names that begin with _ are transformers' own notes.
    if (!IsSet(value) || key.starts_with('_') || Has(kReadKeys, key) || Has(kHarmlessKeys, key) ||
        Has(architecture.keys, key) || IsUsual(key, value)) {
      continue;
    }
    return UnknownKey(key, "");
  }
  return absl::OkStatus();
}

// Reads sizes and keeps the first error.
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
  // transformers 5 has everything in rope_parameters; older releases have rope_theta next to rope_scaling, which takes
  // precedence.
  static const json nothing = json::object();
  const json* rope = &nothing;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!IsSet(config, key) || config.at(key).empty()) continue;
    rope = &config.at(key);
    if (!rope->is_object()) return InvalidArgumentError(StrCat(key, " must be an object"));
  }
  // The type before the keys: an unknown type has unknown keys.
  const std::string type = TextOf(*rope, "rope_type", TextOf(*rope, "type", "default").c_str());
  if (type != "default" && type != "llama3") {
    return UnimplementedError(StrCat("positions of rope_type '", type, "' (default and llama3 are)"));
  }
  for (const auto& [key, value] : rope->items()) {
    if (IsSet(value) && !Has(kRopeKeys, key) && !IsUsual(key, value)) return UnknownKey(key, " of its positions");
  }
  read.rope_theta = NumberOf(*rope, "rope_theta", NumberOf(config, "rope_theta", architecture.usual_theta));
  if (!(read.rope_theta > 1)) return InvalidArgumentError("rope_theta must be a number above 1");
  if (type == "default") return absl::OkStatus();
  const auto number = [&](const char* key) { return NumberOf(*rope, key, 0); };
  // transformers prefers the number next to the object to the one in it; the default is all positions.
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

// Whether a layer has a window if layer_types does not say so.
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

// layer_types; nullptr if it is missing or empty.
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

// The window and its layers: those that layer_types names, if the architecture allows a choice.
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
  if (static_cast<double>(whole.size()) == layers) return absl::OkStatus();  // no layer has a window
  read.shape.window = window;
  read.shape.whole_layers = static_cast<double>(whole.size());
  read.whole_layers = std::move(whole);
  return absl::OkStatus();
}

// Above zero also in fp32, in which kernels compute.
bool IsPositive(double number) {
  return number >= std::numeric_limits<float>::min() && number <= std::numeric_limits<float>::max();
}

// A bound of scores; null removes it.
absl::Status ReadCap(const json& config, const char* key, double usual, double& cap) {
  const auto found = config.find(key);
  if (found != config.end() && found->is_null()) return absl::OkStatus();
  cap = NumberOf(config, key, usual);
  if (IsPositive(cap)) return absl::OkStatus();
  return InvalidArgumentError(StrCat(key, " must be a number above 0, or null"));
}

// The gate function, by the architecture's key.
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

// The options of Gemma's models (arXiv:2408.00118; defaults as in transformers' configuration).
absl::Status ReadGemma(const json& config, DecoderConfig& read) {
  constexpr double kUsualScalar = 256;
  constexpr double kUsualScoreCap = 50;
  constexpr double kUsualLogitCap = 30;
  read.shape.output_norms = read.shape.fp32_norms = true;
  read.embedding_scale = std::sqrt(read.shape.base.d_model);
  const double scalar = NumberOf(config, "query_pre_attn_scalar", kUsualScalar);
  if (!IsPositive(scalar)) return InvalidArgumentError("query_pre_attn_scalar must be a number above 0");
  read.score_scale = 1 / std::sqrt(scalar);
  absl::Status status = ReadCap(config, "attn_logit_softcapping", kUsualScoreCap, read.score_cap);
  status.Update(ReadCap(config, "final_logit_softcapping", kUsualLogitCap, read.logit_cap));
  return status;
}

std::string LowerTextOf(const json& object, const char* key, const char* otherwise) {
  return absl::AsciiStrToLower(TextOf(object, key, otherwise));
}

// The spelling of a key that is present.
const char* Spelling(const json& object, const char* key, const char* other) {
  return object.contains(other) && !object.contains(key) ? other : key;
}

absl::Status CheckKnown(const json& quantization, string_view keys) {
  for (const auto& [key, value] : quantization.items()) {
    if (!IsSet(value) || key.starts_with('_') || Has(keys, key)) continue;
    return UnimplementedError(StrCat("quantization_config with ", Shown(key), ", whose effect is not known"));
  }
  return absl::OkStatus();
}

absl::Status ReadBits(const json& quantization, const char* key) {
  const std::optional<int64_t> bits = WholeNumber(quantization, key, 1);
  if (!bits) return InvalidArgumentError(StrCat("quantization_config's ", key, " must be a whole number from 1 on"));
  if (*bits == 4) return absl::OkStatus();
  return UnimplementedError(StrCat("quantization_config with ", key, " ", *bits, " (4 are)"));
}

absl::Status ReadGroup(const json& quantization, const char* key, PackedFormat& read) {
  const auto found = quantization.find(key);
  if (found != quantization.end() && found->is_number_integer() && *found == -1) {
    read.group = 0;
    return absl::OkStatus();
  }
  const std::optional<int64_t> group = WholeNumber(quantization, key, 1);
  if (!group || *group > kLargestSize) {
    return InvalidArgumentError(
        StrCat("quantization_config's ", key, " must be -1 or a whole number from 1 to ", kLargestSize));
  }
  read.group = *group;
  return absl::OkStatus();
}

absl::StatusOr<PackedFormat> ParseGptq(const json& quantization) {
  if (absl::Status status = CheckKnown(quantization, kGptqKeys); !status.ok()) return status;
  if (absl::Status status = ReadBits(quantization, "bits"); !status.ok()) return status;
  PackedFormat read{.packing = PackedFormat::Packing::kGptq};
  if (absl::Status status = ReadGroup(quantization, "group_size", read); !status.ok()) return status;
  const std::string format = LowerTextOf(quantization, "checkpoint_format", "gptq");
  if (format != "gptq" && format != "gptq_v2") {
    return UnimplementedError(
        StrCat("quantization_config with checkpoint_format '", format, "' (gptq and gptq_v2 are)"));
  }
  if (const std::string word = LowerTextOf(quantization, "pack_dtype", "int32"); word != "int32") {
    return UnimplementedError(StrCat("quantization_config with pack_dtype '", word, "' (int32 is)"));
  }
  read.added_to_zeros = format == "gptq" ? 1 : 0;
  const auto ordered = quantization.find("desc_act");
  read.orders_by_activation = ordered != quantization.end() && IsSet(*ordered);
  return read;
}

absl::StatusOr<PackedFormat> ParseAwq(const json& quantization) {
  if (absl::Status status = CheckKnown(quantization, kAwqKeys); !status.ok()) return status;
  if (absl::Status status = ReadBits(quantization, Spelling(quantization, "bits", "w_bit")); !status.ok()) {
    return status;
  }
  PackedFormat read{.packing = PackedFormat::Packing::kAwq};
  const char* const group = Spelling(quantization, "group_size", "q_group_size");
  if (absl::Status status = ReadGroup(quantization, group, read); !status.ok()) return status;
  if (const std::string version = LowerTextOf(quantization, "version", "gemm"); version != "gemm") {
    return UnimplementedError(StrCat("quantization_config with version '", version, "' (gemm is)"));
  }
  if (const auto zeros = quantization.find("zero_point"); zeros != quantization.end() && !IsSet(*zeros)) {
    return UnimplementedError("quantization_config of awq with zero_point: false");
  }
  return read;
}

// Errors name the key that is wrong, or the one whose value or meaning is unknown (Unimplemented).
absl::StatusOr<PackedFormat> ParseQuantizationConfig(const json& quantization) {
  if (!quantization.is_object()) return InvalidArgumentError("quantization_config must be an object");
  const std::string method = LowerTextOf(quantization, "quant_method", "");
  if (method == "gptq") return ParseGptq(quantization);
  if (method == "awq") return ParseAwq(quantization);
  return UnimplementedError(StrCat("quantization_config of quant_method '", method, "' (gptq and awq are)"));
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

double DecoderConfig::ScoreScale() const { return score_scale > 0 ? score_scale : 1 / std::sqrt(shape.base.HeadDim()); }

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

absl::StatusOr<DecoderConfig> ParseConfig(string_view text) {
  const absl::StatusOr<json> parsed = ParseJsonObject(text, kConfigDepth);
  if (!parsed.ok()) return InvalidArgumentError(StrCat("it ", parsed.status().message()));
  const json& config = *parsed;
  const std::string type = TextOf(config, "model_type", "");
  const auto* const architecture = std::ranges::find(kArchitectures, string_view(type), &Architecture::type);
  if (architecture == std::end(kArchitectures)) {
    std::string names;
    for (const Architecture& known : kArchitectures) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(known.type));
    }
    return UnimplementedError(StrCat("models of the type '", type, "' (", names, " are)"));
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
  // The other architectures have different defaults in transformers, so it is required.
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

absl::StatusOr<std::vector<int64_t>> ParseStopIds(string_view text) {
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
