// SPDX-License-Identifier: Apache-2.0
#include "lib/models/checkpoint/decoder_config.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
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
  bool optional_bias = false;     // of all products of attention, if attention_bias is set
  bool joined_products = false;   // see DecoderConfig
  bool partial_rotary = false;    // partial_rotary_factor is the share of a head that turns
  bool head_norms = false;        // of queries and keys
  bool implied_kv_heads = false;  // num_key_value_heads defaults to the number of heads
  double head_size = 0;           // default of head_dim; 0: hidden_size / num_attention_heads
  bool tied_head = false;         // default of tie_word_embeddings
  bool is_gemma = false;          // norms of outputs, one added to norm weights, scaled embedding, GELU, and caps
  double usual_window = 0;        // default of sliding_window; 0: none
  double usual_positions = 2048;
  double usual_original = 0;  // default of original_max_position_embeddings, whatever rope_scaling says; 0: none
  double usual_theta = 10000;
  double usual_rms_epsilon = 1e-6;
  string_view keys = {};  // in addition to the keys that all have
};

// Keys of config.json, separated by single spaces. Unknown keys are refused by name, because they may change the
// result.
constexpr string_view kMixtralKeys =
    "sliding_window num_local_experts num_experts_per_tok router_aux_loss_coef router_jitter_noise "
    "output_router_logits";
constexpr string_view kQwen3Keys = "sliding_window max_window_layers use_sliding_window attention_bias";
// The last two are never read.
constexpr string_view kPhi3Keys = "sliding_window partial_rotary_factor full_attn_mod interpolate_factor";
// Qwen2 has biases regardless of attention_bias.
constexpr string_view kQwen2Keys = "sliding_window max_window_layers use_sliding_window attention_bias";
// Older conversions have sliding_window_size and cache_implementation, which are never read.
constexpr string_view kGemma2Keys =
    "sliding_window sliding_window_size cache_implementation query_pre_attn_scalar attn_logit_softcapping "
    "final_logit_softcapping hidden_activation";

constexpr Architecture kArchitectures[] = {
    {.type = "llama", .optional_bias = true, .implied_kv_heads = true, .keys = "attention_bias"},
    {.type = "mistral",
     .windows = Windows::kAll,
     .usual_window = 4096,
     .usual_positions = 131072,
     .keys = "sliding_window"},
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
     .optional_bias = true,
     .head_norms = true,
     .head_size = 128,
     .usual_window = 4096,
     .usual_positions = 32768,
     .keys = kQwen3Keys},
    {.type = "phi3",
     .windows = Windows::kAll,
     .joined_products = true,
     .partial_rotary = true,
     .implied_kv_heads = true,
     .usual_positions = 4096,
     .usual_original = 4096,
     .usual_rms_epsilon = 1e-5,
     .keys = kPhi3Keys},
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
    "rope_parameters layer_types eos_token_id original_max_position_embeddings quantization_config is_causal";

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

constexpr string_view kRopeKeys = "rope_type type rope_theta factor original_max_position_embeddings";

using Method = StretchedRope::Method;

struct RopeType {
  string_view name;
  Method method;
  string_view keys = {};  // in addition to those that all have
};

constexpr RopeType kRopeTypes[] = {
    {"linear", Method::kLinear},
    {"dynamic", Method::kDynamic},
    // transformers reads neither `finetuned` nor attn_factor.
    {"yarn", Method::kYarn,
     "attention_factor attn_factor beta_fast beta_slow mscale mscale_all_dim truncate finetuned"},
    {"longrope", Method::kLongRope, "attention_factor short_factor long_factor"},
    {"llama3", Method::kLlama3, "low_freq_factor high_freq_factor"},
};

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

// The first key of `object` that is set and in none of the lists, if any. Names that begin with _ are
// transformers' own notes; a partial_rotary_factor of 1 turns all pairs of a head, as usual.
std::optional<std::string> UnknownKey(const json& object, std::initializer_list<string_view> lists) {
  for (const auto& [key, value] : object.items()) {
    if (!IsSet(value) || key.starts_with('_') || (key == "partial_rotary_factor" && value == 1)) continue;
    if (std::ranges::none_of(lists, [&name = key](string_view list) { return Has(list, name); })) return Shown(key);
  }
  return std::nullopt;
}

// Reads the values of an object, and keeps the first error. After an error the values are arbitrary.
struct Reader {
  explicit Reader(const json& values) : object(values) {}

  // InvalidArgument unless `is_valid`.
  template <typename... Text>
  void Require(bool is_valid, const Text&... error) {
    if (!is_valid) status.Update(InvalidArgumentError(StrCat(error...)));
  }
  // Unimplemented unless `is_known`.
  template <typename... Text>
  void Support(bool is_known, const Text&... error) {
    if (!is_known) status.Update(UnimplementedError(StrCat(error...)));
  }

  // From 1 to `largest`; required without `otherwise`.
  double Size(const char* key, std::optional<double> otherwise = {}, int64_t largest = kLargestSize) {
    if (otherwise && !IsSet(object, key)) return *otherwise;
    const std::optional<int64_t> value = WholeNumber(object, key, 1);
    Require(value && *value <= largest, key, " must be a whole number from 1 to ", largest);
    return static_cast<double>(value.value_or(1));
  }

  void RequireKnown(const json& part, std::initializer_list<string_view> lists, const char* where) {
    const std::optional<std::string> unknown = UnknownKey(part, lists);
    Support(!unknown, "a model with ", unknown.value_or(""), where,
            ", whose effect is not known (set it to null if the logits do not depend on it)");
  }

  const json& object;
  absl::Status status;
};

int64_t Whole(double size) { return static_cast<int64_t>(size); }

std::vector<double> ReadFactors(Reader& reader, const json& rope, const char* key, int64_t count) {
  std::vector<double> factors;
  const auto found = rope.find(key);
  if (found != rope.end() && found->is_array()) {
    for (const json& factor : *found) factors.push_back(factor.is_number() ? factor.get<double>() : 0);
  }
  const bool is_valid = static_cast<int64_t>(factors.size()) == count &&
                        std::ranges::all_of(factors, [](double factor) { return factor > 0; });
  reader.Require(is_valid, key, " must be a list of ", count, " numbers above 0, one for each pair that turns");
  return factors;
}

// YaRN's factor of scores' temperature: a tenth of the stretching's logarithm.
double YarnScale(double factor, double slope) { return factor <= 1 ? 1 : 0.1 * slope * std::log(factor) + 1; }

StretchedRope ReadStretched(Reader& reader, const json& rope, const RopeType& type, double usual_original,
                            const DecoderConfig& read) {
  constexpr char kOriginal[] = "original_max_position_embeddings";
  constexpr double kUsualFast = 32;
  const auto positions = static_cast<double>(read.max_positions);
  const Method method = type.method;
  StretchedRope made{.method = method, .original_positions = positions};
  // transformers prefers the number next to the object to the one in it; the default is all positions. Linear and
  // dynamic stretching start from all.
  if (method != Method::kLinear && method != Method::kDynamic) {
    const double usual = usual_original > 0 ? usual_original : NumberOf(rope, kOriginal, positions);
    made.original_positions = NumberOf(reader.object, kOriginal, usual);
  }
  const bool derives = method == Method::kYarn || method == Method::kLongRope;
  made.factor = NumberOf(rope, "factor", derives ? positions / made.original_positions : 0);
  // Below 1, the dynamic base would become negative.
  reader.Require(made.factor > 0 && (method != Method::kDynamic || made.factor >= 1), "factor of rope_type '",
                 std::string(type.name), "' must be ",
                 method == Method::kDynamic ? "a number from 1 on" : "a number above 0");
  reader.Require(made.original_positions > 1 && made.original_positions <= static_cast<double>(kLargestNumber),
                 kOriginal, " must be a number from 2 to ", kLargestNumber, " where there is one");
  reader.Require(method != Method::kDynamic || read.RotaryDim() > 2, "head_dim must be above 2: a pair cannot stretch");
  if (method == Method::kLlama3) {
    made.low_frequency = NumberOf(rope, "low_freq_factor", 0);
    made.high_frequency = NumberOf(rope, "high_freq_factor", 0);
    reader.Require(made.low_frequency > 0 && made.high_frequency > made.low_frequency,
                   "rope_parameters needs low_freq_factor and a larger high_freq_factor");
  }
  if (method == Method::kYarn) {
    const auto turns = [&](const char* key, double usual) {
      const double given = NumberOf(rope, key, usual);
      return given == 0 ? usual : given;
    };
    made.fast_turns = turns("beta_fast", kUsualFast);
    made.slow_turns = turns("beta_slow", 1);
    made.exact_pairs = rope.contains("truncate") && !IsSet(rope, "truncate");
    reader.Require(made.fast_turns > 0 && made.slow_turns > 0, "beta_fast and beta_slow must be numbers above 0");
    const double slope = NumberOf(rope, "mscale", 0);
    const double other_slope = NumberOf(rope, "mscale_all_dim", 0);
    const bool has_both = slope != 0 && other_slope != 0;
    made.attention_factor =
        has_both ? YarnScale(made.factor, slope) / YarnScale(made.factor, other_slope) : YarnScale(made.factor, 1);
  }
  if (method == Method::kLongRope) {
    made.short_factors = ReadFactors(reader, rope, "short_factor", read.RotaryDim() / 2);
    made.long_factors = ReadFactors(reader, rope, "long_factor", read.RotaryDim() / 2);
    if (made.factor > 1) {
      made.attention_factor = std::sqrt(1 + std::log(made.factor) / std::log(made.original_positions));
    }
  }
  if (derives) made.attention_factor = NumberOf(rope, "attention_factor", made.attention_factor);
  reader.Require(made.attention_factor > 0, "attention_factor must be a number above 0");
  return made;
}

void ReadRope(Reader& reader, const Architecture& architecture, DecoderConfig& read) {
  // transformers 5 has everything in rope_parameters; older releases have rope_theta next to rope_scaling, which takes
  // precedence.
  static const json nothing = json::object();
  const json& config = reader.object;
  const json* rope = &nothing;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!IsSet(config, key) || config.at(key).empty()) continue;
    rope = &config.at(key);
    if (!rope->is_object()) return reader.Require(false, key, " must be an object");
  }
  // The type before the keys: an unknown type has unknown keys.
  std::string type = TextOf(*rope, "rope_type", TextOf(*rope, "type", "default").c_str());
  // The names of LongRoPE in the first releases of Phi-3.
  if (architecture.partial_rotary && (type == "su" || type == "yarn")) type = "longrope";
  const auto* const row = std::ranges::find(kRopeTypes, string_view(type), &RopeType::name);
  const bool is_known = row != std::end(kRopeTypes);
  reader.Support(type == "default" || is_known, "positions of rope_type '", type,
                 "' (default, linear, dynamic, yarn, longrope and llama3 are)");
  constexpr char kShare[] = "partial_rotary_factor";
  reader.RequireKnown(*rope,
                      {kRopeKeys, is_known ? row->keys : string_view(), architecture.partial_rotary ? kShare : ""},
                      " of its positions");
  read.rope_theta = NumberOf(*rope, "rope_theta", NumberOf(config, "rope_theta", architecture.usual_theta));
  reader.Require(read.rope_theta > 1, "rope_theta must be a number above 1");
  if (architecture.partial_rotary) {
    const double share = NumberOf(*rope, kShare, NumberOf(config, kShare, 1));
    const double turned = std::floor(read.shape.base.head_size * share);
    reader.Require(share <= 1 && turned >= 2 && std::fmod(turned, 2) == 0, kShare,
                   " must be a number up to 1 by which head_dim becomes an even number");
    if (share < 1) read.rotary_dim = Whole(turned);
  }
  if (is_known && reader.status.ok())
    read.stretched = ReadStretched(reader, *rope, *row, architecture.usual_original, read);
  if (!read.stretched || !reader.status.ok()) return;
  // The positions that the stretching is for, where max_position_embeddings has those of the training.
  const bool stretches = row->method == Method::kDynamic || row->method == Method::kYarn;
  const double reached = read.stretched->factor * read.stretched->original_positions;
  if (stretches && reached < static_cast<double>(kLargestNumber)) {
    read.max_positions = std::max(read.max_positions, Whole(reached));
  }
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

// The window and its layers: those that layer_types names, if the architecture allows a choice.
void ReadWindow(Reader& reader, const Architecture& architecture, DecoderConfig& read) {
  constexpr char kWindowed[] = "sliding_attention";
  constexpr char kWhole[] = "full_attention";
  constexpr double kUsualFirst = 28;
  const json& config = reader.object;
  const double layers = read.shape.base.layers;
  const json* types = nullptr;
  if (const auto found = config.find("layer_types"); found != config.end() && !found->is_null()) {
    reader.Require(found->is_array(), "layer_types must be a list");
    if (!found->empty()) types = &*found;  // an empty list is none, for transformers, too
    reader.Require(found->empty() || static_cast<double>(found->size()) == layers,
                   "layer_types must have an entry for each of the ", layers, " layers");
  }
  const bool is_late = architecture.windows == Windows::kLate;
  const bool alternates = architecture.windows == Windows::kAlternating;
  const double first = is_late ? NumberOf(config, "max_window_layers", kUsualFirst) : 0;
  reader.Require(first >= 0, "max_window_layers must be a number of layers");
  double window = 0;
  if (architecture.windows != Windows::kNone && (!is_late || IsSet(config, "use_sliding_window"))) {
    window = config.contains("sliding_window") ? reader.Size("sliding_window", 0) : architecture.usual_window;
  }
  if (!reader.status.ok() || (window == 0 && types == nullptr)) return;
  const bool is_open = window > 0 && (is_late || alternates);
  std::set<int64_t> whole;
  for (int64_t layer = 0; layer < Whole(layers); ++layer) {
    bool has_window = window > 0 && static_cast<double>(layer) >= first && !(alternates && layer % 2 != 0);
    if (types != nullptr) {
      const json& type = (*types)[static_cast<std::size_t>(layer)];
      const bool is_known = is_open ? type == kWindowed || type == kWhole : type == (has_window ? kWindowed : kWhole);
      if (!is_known) {
        return reader.Support(false, "a model with layer_types other than ", has_window ? kWindowed : kWhole,
                              is_open ? StrCat(" and ", has_window ? kWhole : kWindowed) : " of all layers");
      }
      has_window = type == kWindowed;
    }
    if (!has_window) whole.insert(layer);
  }
  if (static_cast<double>(whole.size()) == layers) return;  // no layer has a window
  read.shape.window = window;
  read.shape.whole_layers = static_cast<double>(whole.size());
  read.whole_layers = std::move(whole);
}

// Above zero also in fp32, in which kernels compute.
bool IsPositive(double number) {
  return number >= std::numeric_limits<float>::min() && number <= std::numeric_limits<float>::max();
}

// A bound of scores; null removes it.
double ReadCap(Reader& reader, const char* key, double usual) {
  if (const auto found = reader.object.find(key); found != reader.object.end() && found->is_null()) return 0;
  const double cap = NumberOf(reader.object, key, usual);
  reader.Require(IsPositive(cap), key, " must be a number above 0, or null");
  return cap;
}

// The gate function, by the architecture's key.
void ReadGate(Reader& reader, const Architecture& architecture, DecoderConfig& read) {
  if (architecture.is_gemma) {
    constexpr char kGelu[] = "gelu_pytorch_tanh";
    const std::string act = TextOf(reader.object, "hidden_activation", kGelu);
    reader.Support(act == kGelu, "the activation '", act, "' (", kGelu, " is)");
    read.gate = Gate::kGeluTanh;
  } else {
    const std::string act = TextOf(reader.object, "hidden_act", "silu");
    reader.Support(act == "silu" || act == "swish", "the activation '", act, "' (silu, also called swish, is)");
  }
}

// The options of Gemma's models (arXiv:2408.00118; defaults as in transformers' configuration).
void ReadGemma(Reader& reader, DecoderConfig& read) {
  constexpr double kUsualScalar = 256;
  constexpr double kUsualScoreCap = 50;
  constexpr double kUsualLogitCap = 30;
  read.shape.output_norms = read.shape.fp32_norms = true;
  read.embedding_scale = std::sqrt(read.shape.base.d_model);
  const double scalar = NumberOf(reader.object, "query_pre_attn_scalar", kUsualScalar);
  reader.Require(IsPositive(scalar), "query_pre_attn_scalar must be a number above 0");
  read.score_scale = 1 / std::sqrt(scalar);
  read.score_cap = ReadCap(reader, "attn_logit_softcapping", kUsualScoreCap);
  read.logit_cap = ReadCap(reader, "final_logit_softcapping", kUsualLogitCap);
}

// The key `other`, if the object has only that spelling of `key`.
const char* Spelling(const json& object, const char* key, const char* other) {
  return object.contains(other) && !object.contains(key) ? other : key;
}

// Both methods at once: a key of the other method is an unknown one.
void ReadQuantization(Reader& reader, DecoderConfig& read) {
  constexpr char kConfig[] = "quantization_config";
  if (!IsSet(reader.object, kConfig)) return;
  const json& values = reader.object.at(kConfig);
  if (!values.is_object()) return reader.Require(false, kConfig, " must be an object");
  const auto text = [&](const char* key, const char* otherwise) {
    return absl::AsciiStrToLower(TextOf(values, key, otherwise));
  };
  const std::string method = text("quant_method", "");
  const bool is_gptq = method == "gptq";
  reader.Support(is_gptq || method == "awq", kConfig, " of quant_method '", method, "' (gptq and awq are)");
  const std::optional<std::string> unknown = UnknownKey(values, {is_gptq ? kGptqKeys : kAwqKeys});
  reader.Support(!unknown, kConfig, " with ", unknown.value_or(""), ", whose effect is not known");
  const char* const bits_key = Spelling(values, "bits", "w_bit");
  const std::optional<int64_t> bits = WholeNumber(values, bits_key, 1);
  reader.Require(bits.has_value(), kConfig, "'s ", bits_key, " must be a whole number from 1 on");
  reader.Support(bits == 4, kConfig, " with ", bits_key, " ", bits.value_or(0), " (4 are)");
  const char* const group_key = Spelling(values, "group_size", "q_group_size");
  const auto found = values.find(group_key);
  const bool is_row = found != values.end() && found->is_number_integer() && *found == -1;
  const std::optional<int64_t> group = WholeNumber(values, group_key, 1);
  reader.Require(is_row || (group && *group <= kLargestSize), kConfig, "'s ", group_key,
                 " must be -1 or a whole number from 1 to ", kLargestSize);
  const auto support = [&](const char* key, const std::string& value, bool is_known, const char* known) {
    reader.Support(is_known, kConfig, " with ", key, " '", value, "' (", known, ")");
  };
  const std::string format = text("checkpoint_format", "gptq");
  support("checkpoint_format", format, format == "gptq" || format == "gptq_v2", "gptq and gptq_v2 are");
  const std::string word = text("pack_dtype", "int32");
  support("pack_dtype", word, word == "int32", "int32 is");
  const std::string version = text("version", "gemm");
  support("version", version, version == "gemm", "gemm is");
  reader.Support(is_gptq || !values.contains("zero_point") || IsSet(values, "zero_point"), kConfig,
                 " of awq with zero_point: false");
  read.packed = PackedFormat{.packing = is_gptq ? PackedFormat::Packing::kGptq : PackedFormat::Packing::kAwq,
                             .group = is_row ? 0 : group.value_or(0),
                             .added_to_zeros = is_gptq && format == "gptq" ? 1 : 0,
                             .orders_by_activation = IsSet(values, "desc_act")};
}

absl::StatusOr<json> ParseObject(string_view text) {
  absl::StatusOr<json> parsed = ParseJsonObject(text, kConfigDepth);
  if (!parsed.ok()) return InvalidArgumentError(StrCat("it ", parsed.status().message()));
  return parsed;
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

int64_t DecoderConfig::RotaryDim() const { return rotary_dim > 0 ? rotary_dim : Whole(shape.base.HeadDim()); }

std::optional<int64_t> DecoderConfig::FixedLength() const {
  const bool grows = stretched && (stretched->method == Method::kDynamic || stretched->method == Method::kLongRope);
  return grows ? std::optional(Whole(stretched->original_positions)) : std::nullopt;
}

int64_t DecoderConfig::WindowOf(int64_t layer) const { return whole_layers.contains(layer) ? 0 : Whole(shape.window); }

std::set<int64_t> DecoderConfig::Windows() const {
  std::set<int64_t> windows;
  for (int64_t layer = 0; layer < Whole(shape.base.layers); ++layer) windows.insert(WindowOf(layer));
  return windows;
}

DecoderConfig ConfigOf(const workload::DecoderPreset& preset) {
  DecoderConfig config{.shape = preset.shape, .rope_theta = preset.rope_theta};
  if (preset.llama3_rope) config.stretched = StretchedRope{.factor = preset.rope_factor};
  return config;
}

absl::StatusOr<DecoderConfig> ParseConfig(string_view text) {
  const absl::StatusOr<json> parsed = ParseObject(text);
  if (!parsed.ok()) return parsed.status();
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
  Reader reader(config);
  ReadGate(reader, *architecture, read);
  // The one key whose absence means true: without causality transformers lets tokens see later ones.
  reader.Support(!config.contains("is_causal") || IsSet(config, "is_causal"), "a model with is_causal: false");
  reader.RequireKnown(config, {kReadKeys, kHarmlessKeys, architecture->keys}, "");
  workload::Transformer& base = read.shape.base;
  base = {.d_model = reader.Size("hidden_size"),
          .d_ff = reader.Size("intermediate_size"),
          .layers = reader.Size("num_hidden_layers"),
          .heads = reader.Size("num_attention_heads"),
          .vocab = reader.Size("vocab_size"),
          .tied_head =
              config.contains("tie_word_embeddings") ? IsSet(config, "tie_word_embeddings") : architecture->tied_head};
  // The other architectures have different defaults in transformers, so it is required.
  const bool implied = architecture->implied_kv_heads || config.contains("num_key_value_heads");
  base.kv_heads = reader.Size("num_key_value_heads", implied ? std::optional(base.heads) : std::nullopt);
  const double head_size = architecture->head_size;
  base.head_size = reader.Size("head_dim", head_size > 0 ? head_size : std::floor(base.d_model / base.heads));
  read.shape.output_bias = architecture->optional_bias && IsSet(config, "attention_bias");
  read.shape.attention_bias = architecture->attention_bias || read.shape.output_bias;
  read.joined_products = architecture->joined_products;
  read.shape.head_norms = architecture->head_norms;
  ReadWindow(reader, *architecture, read);
  if (architecture->mixture) {
    read.shape.experts = reader.Size("num_local_experts");
    read.shape.active_experts = reader.Size("num_experts_per_tok");
  }
  read.max_positions = Whole(reader.Size("max_position_embeddings", architecture->usual_positions, kLargestNumber));
  reader.Require(std::fmod(base.heads, base.kv_heads) == 0,
                 "num_attention_heads must be a multiple of num_key_value_heads");
  reader.Require(std::fmod(base.head_size, 2) == 0, "head_dim must be even: RoPE turns pairs");
  reader.Require(read.shape.active_experts <= read.shape.experts,
                 "num_experts_per_tok must not exceed num_local_experts");
  read.rms_epsilon = NumberOf(config, "rms_norm_eps", architecture->usual_rms_epsilon);
  reader.Require(read.rms_epsilon > 0, "rms_norm_eps must be a number above 0");
  if (architecture->is_gemma) ReadGemma(reader, read);
  ReadRope(reader, *architecture, read);
  read.stop_ids = StopIds(config);
  ReadQuantization(reader, read);
  if (!reader.status.ok()) return reader.status;
  return read;
}

absl::StatusOr<std::vector<int64_t>> ParseStopIds(string_view text) {
  const absl::StatusOr<json> parsed = ParseObject(text);
  if (!parsed.ok()) return parsed.status();
  return StopIds(*parsed);
}

absl::Status CheckGrowth(const DecoderConfig& config, int64_t first, int64_t last) {
  if (!config.stretched || config.stretched->method != Method::kLongRope) return absl::OkStatus();
  const int64_t original = *config.FixedLength();
  if (first > original || last <= original) return absl::OkStatus();
  return UnimplementedError(StrCat(
      "a text that grows from ", first, " to ", last, " tokens, past original_max_position_embeddings (", original,
      "): there rope_type 'longrope' turns all its tokens otherwise, and transformers reads it again; shorter "
      "texts and longer prompts are supported"));
}

at::Tensor InverseFrequencies(const DecoderConfig& config, const at::Tensor& lengths) {
  const auto dim = static_cast<double>(config.RotaryDim());
  const at::Tensor pair = at::arange(config.RotaryDim() / 2, at::kDouble);
  const at::Tensor plain = at::pow(config.rope_theta, pair * (-2 / dim)).unsqueeze(0);
  if (!config.stretched) return plain;
  const StretchedRope& rope = *config.stretched;
  constexpr double kTurn = 2 * std::numbers::pi;
  // `share` of each pair is divided by the factor.
  const auto divided = [&](const at::Tensor& share) { return plain * (1 - share) + plain * share / rope.factor; };
  switch (rope.method) {
    case Method::kLinear:
      return plain / rope.factor;
    case Method::kDynamic: {
      const at::Tensor longer = (lengths / rope.original_positions).clamp_min(1);
      const at::Tensor growth = longer * rope.factor - (rope.factor - 1);
      return plain * at::pow(growth.unsqueeze(1), pair * (-2 / (dim - 2)));
    }
    case Method::kYarn: {
      // The pair, as a fraction, that turns so often over the original positions.
      const auto pair_of = [&](double turns) {
        return dim * std::log(rope.original_positions / (turns * kTurn)) / (2 * std::log(config.rope_theta));
      };
      double first = pair_of(rope.fast_turns);
      double last = pair_of(rope.slow_turns);
      if (!rope.exact_pairs) {
        first = std::floor(first);
        last = std::ceil(last);
      }
      first = std::max(first, 0.0);
      last = std::min(last, dim - 1);
      constexpr double kLeast = 0.001;  // between equal pairs
      if (first == last) last += kLeast;
      return divided(((pair - first) / (last - first)).clamp(0, 1));
    }
    case Method::kLongRope: {
      const at::Tensor is_long = lengths.gt(rope.original_positions).unsqueeze(1);
      return plain / at::where(is_long, at::tensor(rope.long_factors, at::kDouble),
                               at::tensor(rope.short_factors, at::kDouble));
    }
    case Method::kLlama3: {
      const at::Tensor turns = plain * (rope.original_positions / kTurn);
      return divided(1 - ((turns - rope.low_frequency) / (rope.high_frequency - rope.low_frequency)).clamp(0, 1));
    }
  }
  return plain;
}

}  // namespace roofbench::models
