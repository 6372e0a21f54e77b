// A folder of its own for each test, a small model with one packed weight, and children that run it.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "flow/weight_sources.h"
#include "rlx/rlx.h"

namespace rlx {

namespace aot_fs = std::filesystem;

class AotFolder {
 public:
  AotFolder() {
    std::string name = (aot_fs::temp_directory_path() / "rlx-aot-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  AotFolder(const AotFolder&) = delete;
  ~AotFolder() {
    std::error_code ignored;
    aot_fs::permissions(path_, aot_fs::perms::owner_all, ignored);
    aot_fs::remove_all(path_, ignored);
  }
  const aot_fs::path& path() const { return path_; }

  /// Files whose names end so, sorted.
  std::vector<aot_fs::path> files(std::string_view ending) const {
    std::vector<aot_fs::path> list;
    for (const auto& e : aot_fs::directory_iterator(path_))
      if (e.path().filename().string().ends_with(ending)) list.push_back(e.path());
    std::sort(list.begin(), list.end());
    return list;
  }
  std::size_t temporary_files() const {
    std::size_t n = 0;
    for (const auto& e : aot_fs::directory_iterator(path_))
      if (e.path().filename().string().starts_with(".tmp-")) ++n;
    return n;
  }

 private:
  aot_fs::path path_;
};

inline void overwrite(const aot_fs::path& path, std::string_view content) {
  std::FILE* f = std::fopen(path.c_str(), "wb");
  ASSERT_NE(f, nullptr);
  std::fwrite(content.data(), 1, content.size(), f);
  std::fclose(f);
}

/// y = x w^T over symbolic rows, with w [16, 32] in a source in memory: one entry that is packed.
inline BuiltModel aot_model() {
  auto weights = std::make_shared<WeightMap>("memory");
  std::vector<float> values(16 * 32);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 37) - 0.1f;
  weights->add("w", {16, 32}, std::move(values));
  HirModule hir("small");
  const Value x = hir.input("x", Shape({Dim(sym::rows), 32}, DType::f32));
  hir.set_outputs({hir.linear_stored(x, hir.param("w", Shape({16, 32}, DType::f32)))});
  BuiltModel model;
  model.graph = hir.graph();
  model.params.push_back({"w", *weights->find("w"), nullptr, false});
  model.weights = std::move(weights);
  return model;
}

/// The answer of that model for 3 rows, and how it came about.
struct AotAnswer {
  std::vector<float> values;
  AotStatistics cache;
  std::int64_t warnings = 0, passes = 0;
  std::string warning;
};

/// `bundle`: a file of write_aot_bundle instead of the folder.
inline AotAnswer answer_with(AotOptions options, std::int64_t bound = 4, const aot_fs::path& bundle = {}) {
  AotAnswer a;
  options.warn = [&a](const std::string& text) {
    ++a.warnings;
    a.warning = text;
  };
  const std::shared_ptr<AotCache> cache =
      bundle.empty() ? AotCache::open_or_warn(options) : AotCache::of_file(bundle, options);
  ModelCompilePipeline pipeline(Device::cpu());
  pipeline.set_aot_cache(cache);
  const ModelComponent component =
      ModelComponent(ModelVariant::inference(1, 1).with_extra(sym::rows, bound)).with_mode(CompilationMode::Aot);
  {
    const auto graph = pipeline.get_or_compile_component(component, HirSource([] { return aot_model(); }), {});
    Tensor x = Tensor::zeros({3, 32});
    for (float& v : x.mutable_as<float>()) v = 0.5f - 0.01f * static_cast<float>(&v - x.mutable_as<float>().data());
    const auto out = graph->run({{"x", x}});
    const auto y = out[0].tensor.as<float>();
    a.values.assign(y.begin(), y.end());
    a.passes = static_cast<std::int64_t>(graph->compiled().passes.size());
  }
  if (cache == nullptr) return a;
  cache->flush();
  a.cache = cache->statistics();
  return a;
}

inline AotAnswer answer_in(const aot_fs::path& folder) {
  AotOptions options;
  options.folder = folder;
  return answer_with(options);
}

/// The exit status of a child that runs f; a signal gives 128 and its number.
inline int in_child(const std::function<int()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 99;
    try {
      status = f();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "child: %s\n", e.what());
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace rlx
