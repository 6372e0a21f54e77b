#include "runtime/aot_cache.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/build_id.h"
#include "base/error.h"
#include "device/program_io.h"
#include "ir/source.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

void warn_on_stderr(const std::string& message) { std::fprintf(stderr, "rlx: warning: %s\n", message.c_str()); }

const char* variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

[[noreturn]] void another(std::string_view what, std::string_view name) {
  fail(ErrorCode::format, "the file has another {} \"{}\" than the graph", what, name);
}

// Dtypes of caches are chosen by a pass.
bool same_state(const Shape& a, const Shape& b) {
  return a.kind == b.kind && std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end());
}

// A digest says that the file is whole, not that it is about this graph.
void check_boundaries(const Program& p, const Graph& hir) {
  const auto find = [&](std::string_view what, const std::string& name) -> const Node& {
    const Value v = hir.find_source(name);
    if (!v) another(what, name);
    return hir.node(v);
  };
  for (const BoundaryEntry& e : p.inputs) {
    const Node& n = find("input", e.name);
    if (!n.is<Input>() || !(p.operands[static_cast<std::size_t>(e.operand)].shape == n.results[0]))
      another("input", e.name);
  }
  for (const StateEntry& e : p.states) {
    const Node& n = find("state", e.name);
    if (!n.is<State>() || !same_state(e.shape, n.results[0])) another("state", e.name);
  }
  for (const WeightEntry& w : p.weights) {
    const Node& n = find("param", w.param);
    const Shape stored = w.transposed ? Shape({w.shape.dim(1), w.shape.dim(0)}, w.shape.dtype) : w.shape;
    if (!n.is<Param>() || !(stored == n.results[0])) another("param", w.param);
  }
  if (p.outputs.size() != hir.outputs().size()) another("count of outputs in", p.name);
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    const Shape& s = hir.shape(hir.outputs()[i].value);
    if (p.outputs[i].name != hir.outputs()[i].name ||
        !(p.operands[static_cast<std::size_t>(p.outputs[i].operand)].shape == s))
      another("output", p.outputs[i].name);
  }
}

AotShared::Warn warner(const AotOptions& options) { return options.warn ? options.warn : warn_on_stderr; }

}  // namespace

std::string AotName::file() const { return fmt::format("{}__{}.rlxv", base, binding.digest().hex()); }

AotName aot_name(const ModelComponent& component, const TemplateIdentity& of) {
  return {component.aot_disk_base(of), component.executable_key(of), component.executable_binding(of)};
}

AotCache::AotCache(std::unique_ptr<AotPlace> place, AotOptions options)
    : shared_(std::make_shared<AotShared>(std::move(place), warner(options))),
      weights_{options.read_at_once, options.verify_content} {}

AotCache::AotCache(AotOptions options) : AotCache(open_aot_folder(options.folder, options.most_bytes), options) {}

std::shared_ptr<AotCache> AotCache::of_file(const fs::path& file, AotOptions options) {
  return std::shared_ptr<AotCache>(new AotCache(open_aot_bundle(file), std::move(options)));
}

fs::path AotCache::default_folder() {
  if (const char* caches = variable("XDG_CACHE_HOME"); caches != nullptr && fs::path(caches).is_absolute())
    return fs::path(caches) / "rlx";
  if (const char* home = variable("HOME")) return fs::path(home) / ".cache" / "rlx";
  return {};
}

std::shared_ptr<AotCache> AotCache::open_or_warn(AotOptions options) {
  const AotShared::Warn warn = warner(options);
  if (options.folder.empty()) {
    warn("no cache of compiled models: neither XDG_CACHE_HOME nor HOME says where it lies");
    return nullptr;
  }
  try {
    return std::make_shared<AotCache>(std::move(options));
  } catch (const Error& e) {
    warn(fmt::format("no cache of compiled models: {}", e.what()));
    return nullptr;
  }
}

std::string AotCache::text() const { return shared_->place().text(); }

std::optional<CompileResult> AotCache::find(const AotName& name, const Backend& backend, const Graph& hir) {
  return look_up(name, backend, &hir, nullptr);
}

std::optional<CompileResult> AotCache::find_plan(const AotName& name, const Backend& backend,
                                                 const CompileResult& known) {
  return look_up(name, backend, nullptr, &known);
}

std::optional<CompileResult> AotCache::look_up(const AotName& name, const Backend& backend, const Graph* hir,
                                               const CompileResult* known) {
  const std::string file = name.file();
  if (shared_->rejected(file)) return std::nullopt;
  try {
    const std::shared_ptr<const AotReader> reader = shared_->place().open(file);
    if (reader == nullptr) {
      // A file made on purpose holds the single step alone; plans of other sizes cost no pass.
      if (known == nullptr || shared_->place().writable()) shared_->count(&AotStatistics::misses, file);
      // A size that a file does not hold costs no pass; a program that it does not hold is worth a word.
      if (!shared_->place().writable() && known == nullptr)
        shared_->warn(text() +
                      ": made by another build, for another machine, other options or another state of the model; "
                      "compiled again");
      return std::nullopt;
    }
    CompileResult result =
        read_variant(*read_aot_image(*reader, AotKind::variant), reader->name(), name, backend, known);
    if (hir != nullptr) check_boundaries(*result.lir.program, *hir);
    shared_->count(&AotStatistics::hits, file);
    shared_->place().mark_used(file);
    return result;
  } catch (const std::exception& e) {
    const std::string why = e.what();
    shared_->reject(file, why.starts_with(text()) ? why : fmt::format("{}/{}: {}", text(), file, why));
    return std::nullopt;
  }
}

void AotCache::save(const AotName& name, const CompileResult& result, const Backend& backend) {
  if (!shared_->place().writable() || !can_write(*result.lir.program)) return;
  shared_->save_later(name.file(), [shared = shared_.get(), name, result, &backend] {
    const std::string file = name.file();
    // Another process was faster.
    if (!shared->rejected(file) && shared->place().open(file) != nullptr) return false;
    const std::string bytes = write_variant(name, result, backend);
    // What could not be read back would be compiled at every start.
    const auto size = static_cast<std::int64_t>(bytes.size());
    read_variant(*parse_aot_image(bytes, size, AotKind::variant, file), file, name, backend);
    shared->place().save(file, [&](const std::function<void(std::string_view)>& write) { write(bytes); });
    return true;
  });
}

void AotCache::attach(WeightStore& store, const Digest& source, const Backend& backend) {
  store.set_packed(std::make_unique<CachedWeights>(shared_, store.shared_source(), source, backend, weights_));
}

}  // namespace rlx
