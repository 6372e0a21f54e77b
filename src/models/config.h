// The hyper-parameters of a decoder as plain data, whatever file they come from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flow/weight_source.h"
#include "models/rope.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/moe.h"
#include "ops/recurrent.h"

namespace rlx {

enum class ConfigFormat : std::uint8_t { gguf, hub };

/// Sizes of the recurrent layers of a state-space model.
struct SsmConfig {
  std::int64_t inner = 0;   ///< lanes of a layer's state, heads * head_dim
  std::int64_t states = 0;  ///< numbers per lane
  std::int64_t taps = 0;    ///< rows that the short convolution reads
  std::int64_t rank = 0;    ///< Mamba: of the projection of the step size
  std::int64_t heads = 0, head_dim = 0, groups = 1;        ///< Mamba-2
  double dt_min = 0.0, dt_max = kNoStepLimit;              ///< Mamba-2: limits of the step size
  std::int64_t norm_groups = 1;                            ///< Mamba-2: of the norm behind the gate
  bool bias = false, conv_bias = true, inner_norm = false; ///< inner_norm: of dt, b and c (Falcon Mamba)
  double inner_eps = 1e-6;
};

/// Layers with a mixture of experts instead of one MLP.
struct MoeConfig {
  std::int64_t used = 0;         ///< experts of a row; 0: the family has no mixtures
  std::int64_t inner = 0;        ///< of one routed expert
  std::int64_t shared_inner = 0;  ///< of the shared experts together; 0: none
  bool shared_router = false;     ///< whether a sigmoid scales the shared experts
  std::vector<bool> sparse;       ///< per layer: whether it has experts
  Scoring scoring = Scoring::softmax;
  bool normalize = false;
  double factor = 1.0;
  std::int64_t groups = 1, group_limit = 1, group_top = 2;
  bool is_sparse(std::int64_t layer) const {
    return static_cast<std::size_t>(layer) < sparse.size() && sparse[static_cast<std::size_t>(layer)];
  }
};

struct DecoderConfig {
  std::string architecture;  ///< the family: "llama", "gemma3", ...
  std::string name;          ///< as the file says, may be empty
  std::string file;          ///< what messages call the place of the config
  ConfigFormat format = ConfigFormat::hub;
  std::string key_prefix;  ///< GGUF: general.architecture, the prefix of its keys

  std::int64_t vocab = 0, hidden = 0, inner = 0, layers = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0, rotary_dim = 0;
  std::int64_t context = 0;
  bool attention_free = false;  ///< no heads, no RoPE: these fields stay 0
  SsmConfig ssm;                ///< of families with recurrent layers
  std::int64_t experts = 0;     ///< above 0: a mixture
  MoeConfig moe;
  double eps = 1e-6;
  std::string activation;  ///< as the file calls it; `act` is what it means
  Act act = Act::silu;
  bool qkv_bias = false, out_bias = false, mlp_bias = false, qk_norm = false, tied = false;
  double norm_offset = 0.0;  ///< 1: norms multiply by 1 + weight

  RopeStyle rope_style = RopeStyle::half;
  RopeConfig rope;        ///< of the layers with full attention
  RopeConfig local_rope;  ///< of the layers with a window (Gemma 3)

  std::int64_t window = 0;     ///< tokens that a windowed layer sees; 0: none
  std::vector<bool> windowed;  ///< per layer
  double attention_scale = 0.0;
  double embedding_scale = 1.0;
  double final_softcap = 0.0;  ///< 0: none

  std::int64_t window_of(std::int64_t layer) const {
    return windowed[static_cast<std::size_t>(layer)] ? window : 0;
  }
};

/// What the checkpoint's tensors can hold: bounds for counts that a file claims.
struct TensorLimits {
  std::int64_t tensors = 0;  ///< how many there are
  std::int64_t largest = 0;  ///< the largest size of any of them
  static TensorLimits of(const WeightSource& weights);
};

/// Checks sizes by one table before anything is sized by them: first the counts (`validate_counts`:
/// a family's reader may rely on them), then everything. Error(format) for the first that is wrong:
/// "FILE: KEY: expected E, found F".
void validate_counts(const DecoderConfig& config, const TensorLimits& limits);
void validate(const DecoderConfig& config, const TensorLimits& limits);

/// The activation of a name ("silu", "gelu_pytorch_tanh"); Error(unsupported) that lists the known
/// ones. `place`: "FILE: KEY", for the message.
Act activation_named(std::string_view name, const std::string& place);
/// That of config.activation.
Act activation_of(const DecoderConfig& config);

/// "FILE: KEY" where KEY is the config's own name for a field.
std::string key_text(const DecoderConfig& config, std::string_view gguf_key,
                     std::string_view hub_key);

}  // namespace rlx
