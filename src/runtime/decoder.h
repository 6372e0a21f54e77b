// A decoder model ready to run: weights packed, program compiled, steps by sequence. The path of
// run, chat, bench, verify, eval.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/dispatch.h"
#include "device/device.h"
#include "ir/options.h"
#include "models/load.h"
#include "runtime/aot_cache.h"

namespace rlx {

struct KernelTime;  // runtime/kernel_profile.h
struct StepWork;

struct DecoderOptions {
  Device device = Device::cpu();
  int threads = 0;           ///< 0: RLX_THREADS, else the physical cores that this process may use
  std::int64_t context = 0;  ///< tokens a sequence may have; 0: the model's own, halved until its cache takes no more
                             ///< than half of the free memory (which is committed as it fills)
  std::int64_t chunk = 512;  ///< rows of a prompt that one step takes at most
  std::int64_t sequences = 1;  ///< sequences that live at the same time
  std::filesystem::path lora;  ///< of TextModel: an adapter that load_model puts beside the products; empty: none
  CompileOptions compile;
  std::shared_ptr<AotCache> aot;  ///< where the program and packed weights are read from and kept; nullptr: nowhere
};

/// Counters and sizes of `--stats` (interfaces.md, section 4).
struct DecoderStats {
  std::int64_t compiles = 0, passes = 0, prologue_runs = 0, steady_runs = 0, epilogue_rows = 0,
               packed_tensors = 0;
  std::int64_t specializations = 0;
  AotStatistics cache;
  double load_ms = 0;
  std::int64_t weight_bytes = 0, arena_bytes = 0, kv_bytes = 0, scratch_bytes = 0;
};

/// The threads of a session: `asked`, else RLX_THREADS, else the physical cores. Error(usage): outside 1 .. 1024.
int resolve_threads(int asked);

class Trace;

class Decoder {
 public:
  /// Compiles and packs. Errors: as load_model; memory (the sum weights + arena + KV + scratch,
  /// before anything is allocated); device; limit (context above what the options allow).
  Decoder(LoadedModel model, const DecoderOptions& options);
  Decoder(Decoder&&) noexcept;
  ~Decoder();

  const ModelInfo& info() const;
  const LoadedModel& model() const;
  const DecoderOptions& options() const;  ///< with defaults resolved (threads, context, kv)
  std::int64_t context() const;
  int threads() const;

  /// What a sequence adds in one step: `tokens` at the positions that follow its `past`, and which
  /// of them want logits.
  enum class Want : std::uint8_t { none, last, all };
  struct Part {
    std::int64_t sequence = 0;             ///< 0 .. sequences - 1
    std::span<const std::int32_t> tokens;  ///< 1 or more
    Want want = Want::last;
  };
  /// One step over all parts together, in chunks of at most `chunk` rows. Returns the logits of the
  /// wanted rows, in order [wanted, vocab]; valid until the next call. Errors: limit (past + tokens
  /// above the context, both numbers named), invalid_argument (a token id outside the vocabulary,
  /// an unknown sequence).
  std::span<const float> step(std::span<const Part> parts);
  std::span<const float> step(std::span<const std::int32_t> tokens,
                              Want want = Want::last);  ///< sequence 0

  std::int64_t past(std::int64_t sequence = 0) const;
  /// Cuts a sequence back to `tokens` (<= past). Returns how many tokens are left: a model with
  /// recurrent states, which hold the end of a sequence only, falls back to 0 when anything is cut.
  std::int64_t truncate(std::int64_t tokens, std::int64_t sequence = 0);

  DecoderStats stats() const;
  const DispatchReport& dispatch() const;

  /// HIR, MIR after the passes (before: `with_passes` false) and LIR at sizes, as text.
  std::string text(std::string_view stage, const DimBinding& sizes, bool with_passes = true) const;

  /// What a step of these sizes must read and compute, its sequences holding `context` tokens together.
  StepWork work(const DimBinding& sizes, std::int64_t context) const;
  /// Time by kernel since `set_profile(true)`, longest first.
  void set_profile(bool on);
  std::vector<KernelTime> profile() const;
  /// Records every step that follows; nullptr: none. The trace outlives its use.
  void set_trace(Trace* trace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rlx
