// Artefacts on disk (compiler.md, section 9): what was compiled and packed once is read at the next start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "compiler/component.h"
#include "compiler/pipeline.h"
#include "runtime/aot_weights.h"
#include "runtime/weight_store.h"

namespace rlx {

/// An executable on disk: "<base>__<32 digits of the binding>.rlxv".
struct AotName {
  std::string base;  ///< ModelComponent::aot_disk_base
  Digest key;        ///< ModelComponent::executable_key
  DimBinding binding;
  std::string file() const;
};
/// The name of a component's executable.
AotName aot_name(const ModelComponent& component, const TemplateIdentity& of);

struct AotOptions {
  static constexpr std::int64_t kMostBytes = std::int64_t{32} << 30;
  std::filesystem::path folder;
  std::int64_t most_bytes = kMostBytes;        ///< of all files; those used longest ago go first
  std::int64_t read_at_once = kAotReadAtOnce;  ///< larger weights files are read by a thread behind the first calls
  bool verify_content = false;  ///< compare every byte of a checkpoint with what its weights file was made from
  AotShared::Warn warn;         ///< gets one line at most; empty: a line on stderr
};

/// A folder of variant files and weights files, or one file with both (`rlx compile`). Files that are damaged, foreign
/// or unreadable, and folders that cannot be written, cost one warning and a compile, never an error. Files are written
/// on a thread of the cache, under a temporary name, and appear whole. May be used from several threads and processes.
class AotCache {
 public:
  /// Errors (io): the folder cannot be made, or others may write it.
  explicit AotCache(AotOptions options);
  /// A file that write_artefact (artefact.h) made. Errors: io; format.
  static std::shared_ptr<AotCache> of_file(const std::filesystem::path& file, AotOptions options = {});
  /// XDG_CACHE_HOME/rlx, else ~/.cache/rlx; empty when none of them is known.
  static std::filesystem::path default_folder();
  /// A cache in the folder; a folder that may not be used gives nullptr and a warning.
  static std::shared_ptr<AotCache> open_or_warn(AotOptions options);

  /// The program and plan of a name; nothing when there is none of use. `hir`: the graph that was asked for, whose
  /// inputs, outputs, states and params the program must have.
  std::optional<CompileResult> find(const AotName& name, const Backend& backend, const Graph& hir);
  /// The plan of another size of a program that is there already.
  std::optional<CompileResult> find_plan(const AotName& name, const Backend& backend, const CompileResult& known);
  /// Keeps a specialised result for the next start.
  void save(const AotName& name, const CompileResult& result, const Backend& backend);
  /// Packed weights of the store come from this cache, and are kept in it; before its first bind. `source`:
  /// source_identity of the checkpoint.
  void attach(WeightStore& store, const Digest& source, const Backend& backend);

  AotStatistics statistics() const { return shared_->statistics(); }
  /// Waits until everything is written.
  void flush() { shared_->flush(); }
  std::string text() const;
  bool verifies_content() const { return weights_.verify_content; }

 private:
  AotCache(std::unique_ptr<AotPlace> place, AotOptions options);
  std::optional<CompileResult> look_up(const AotName& name, const Backend& backend, const Graph* hir,
                                       const CompileResult* known);
  std::shared_ptr<AotShared> shared_;
  CachedWeights::Options weights_;
};

/// The bytes of a variant file, and their reading, which is where hostile files end. `known`: the program must be this
/// one, and is not read again. Errors (format).
std::string write_variant(const AotName& name, const CompileResult& result, const Backend& backend);
CompileResult read_variant(const AotImage& image, std::string_view file, const AotName& name, const Backend& backend,
                           const CompileResult* known = nullptr);

}  // namespace rlx
