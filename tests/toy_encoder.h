// The golden BERT with a tokenizer of single characters, in a folder of its own: what embeddings are tested on.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace rlx::test {

/// [CLS] text [SEP], an id for each printable ASCII character, below the golden's vocabulary of 160.
class ToyEncoder {
 public:
  ToyEncoder() {
    char name[] = "/tmp/rlx-embed-XXXXXX";
    folder_ = mkdtemp(name);
    const std::filesystem::path golden = std::string(RLX_TEST_DIR) + "/goldens/models/bert";
    for (const char* file : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(golden / file, folder_ / file);
    write("tokenizer.json", tokenizer().dump());
  }
  ToyEncoder(const ToyEncoder&) = delete;
  ~ToyEncoder() { std::filesystem::remove_all(folder_); }

  const std::filesystem::path& path() const { return folder_; }
  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  /// The config of the Pooling module.
  void pooling(const nlohmann::json& config) const {
    write("1_Pooling/config.json", config.is_null() ? "{}" : config.dump());
  }
  static std::string modules(bool normalize) {
    const std::string type = "sentence_transformers.models.";
    nlohmann::json list = {{{"idx", 0}, {"name", "0"}, {"path", ""}, {"type", type + "Transformer"}},
                           {{"idx", 1}, {"name", "1"}, {"path", "1_Pooling"}, {"type", type + "Pooling"}}};
    if (normalize) list.push_back({{"idx", 2}, {"name", "2"}, {"path", "2_Normalize"}, {"type", type + "Normalize"}});
    return list.dump();
  }

 private:
  static nlohmann::json tokenizer() {
    nlohmann::json vocab = {{"[UNK]", 0}, {"[CLS]", 1}, {"[SEP]", 2}};
    for (int c = 32; c < 127; ++c) vocab[std::string(1, static_cast<char>(c))] = c - 29;
    const auto special = [](int id, const char* text) {
      return nlohmann::json{{"id", id}, {"content", text}, {"special", true}, {"normalized", false}};
    };
    const auto item = [](const char* kind, const char* id) {
      return nlohmann::json{{kind, {{"id", id}, {"type_id", 0}}}};
    };
    const auto ids = [](const char* text, int id) {
      return nlohmann::json{{"id", text}, {"ids", {id}}, {"tokens", {text}}};
    };
    return {{"version", "1.0"},
            {"added_tokens", {special(1, "[CLS]"), special(2, "[SEP]")}},
            {"normalizer", nullptr},
            {"pre_tokenizer", nullptr},
            {"post_processor",
             {{"type", "TemplateProcessing"},
              {"single", {item("SpecialToken", "[CLS]"), item("Sequence", "A"), item("SpecialToken", "[SEP]")}},
              {"special_tokens", {{"[CLS]", ids("[CLS]", 1)}, {"[SEP]", ids("[SEP]", 2)}}}}},
            {"decoder", nullptr},
            {"model",
             {{"type", "BPE"}, {"unk_token", "[UNK]"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}};
  }

  std::filesystem::path folder_;
};

}  // namespace rlx::test
