// Tokenizer::from_json: the model, the added tokens and the post-processor of a tokenizer.json, put
// together.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "formats/byte_reader.h"
#include "text/tokenizer/json_reader.h"
#include "text/tokenizer/origin.h"
#include "text/tokenizer/tokenizer.h"

namespace rlx {
namespace tokenizer {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxPost = 4096;  // ids that a post-processor may add

void read_vocab(const TokenizerJson& file, Data& data) {
  std::size_t bytes = 0;
  for (const auto& token : file.vocab) bytes += token.text.size();
  data.vocab.reserve(file.vocab.size(), bytes);
  for (const auto& token : file.vocab) {
    if (token.id < 0 || token.id >= max_id(file.vocab.size())) {
      fail(ErrorCode::format, "{}: model.vocab: the id {} of {} is out of range for {} tokens",
           file.origin, token.id, quote(token.text), file.vocab.size());
    }
    naming(file.origin, [&] {
      data.vocab.add(static_cast<std::int32_t>(token.id), token.text, TokenKind::model);
    });
  }
}

MergeTable read_merges(const TokenizerJson& file, const Vocab& vocab, std::size_t prefix) {
  MergeTable table;
  table.reserve(file.merges.size());
  std::string joined;
  std::int32_t merged = -1;
  for (std::size_t i = 0; i < file.merges.size(); ++i) {
    const auto& [left, right] = file.merges[i];
    const std::int32_t a = vocab.find_model(left);
    const std::int32_t b = vocab.find_model(right);
    joined = left;
    if (right.size() >= prefix) joined.append(right, prefix);
    merged = vocab.find_model_near(joined, merged + 1);
    if (a < 0 || b < 0 || merged < 0) {
      fail(ErrorCode::format, "{}: model.merges[{}]: {} is not in the vocabulary", file.origin, i,
           quote(a < 0   ? left
                 : b < 0 ? right
                         : joined));
    }
    table.add(a, b, {static_cast<std::uint32_t>(i), merged});
  }
  return table;
}

void read_word_pieces(const TokenizerJson& file, const Fields& model, Data& data) {
  if (!file.has_vocab) model.wrong("the field 'vocab' is missing or no object");
  read_vocab(file, data);
  WordPieceOptions options;
  options.prefix = model.string("continuing_subword_prefix", options.prefix);
  options.unk = model.string("unk_token", options.unk);
  if (model.has("max_input_chars_per_word"))
    options.longest_word = static_cast<std::size_t>(model.integer("max_input_chars_per_word", 0, INT32_MAX));
  data.model.emplace<WordPiece>(std::move(options));
}

void read_model(const TokenizerJson& file, Data& data) {
  const Fields root(file.root, file.origin);
  const Fields model = root.object("model");
  const std::string type = model.string("type", file.has_merges ? "BPE" : "");
  if (type.empty()) model.wrong("the field 'type' is missing");
  if (type == "WordPiece") return read_word_pieces(file, model, data);
  if (type != "BPE") model.unsupported("the model type " + quote(type));
  if (!file.has_vocab) model.wrong("the field 'vocab' is missing or no object");
  if (!file.has_merges) model.wrong("the field 'merges' is missing or no list");
  read_vocab(file, data);
  BpeOptions options;
  options.ignore_merges = model.boolean("ignore_merges", false);
  options.byte_fallback = model.boolean("byte_fallback", false);
  options.fuse_unk = model.boolean("fuse_unk", false);
  options.continuing_prefix = model.string("continuing_subword_prefix", "");
  options.end_suffix = model.string("end_of_word_suffix", "");
  if (model.has("unk_token")) {
    if (const std::int32_t id = data.vocab.find_model(model.string("unk_token")); id >= 0)
      options.unk = id;
  }
  MergeTable merges = read_merges(file, data.vocab, options.continuing_prefix.size());
  data.model.emplace<Bpe>(std::move(options), std::move(merges));
}

void read_added_tokens(const TokenizerJson& file, Data& data) {
  const Fields root(file.root, file.origin);
  if (!root.has("added_tokens")) return;
  const json& list = root.array("added_tokens");
  const auto model_size = static_cast<std::int64_t>(data.vocab.count());
  std::int64_t largest = -1;  // id of an added token so far
  std::size_t i = 0;
  for (const json& value : list) {
    const Fields f(value, fmt::format("{}: added_tokens[{}]", file.origin, i++));
    AddedToken token;
    token.content = f.string("content");
    token.special = f.boolean("special", false);
    token.normalized = f.boolean("normalized", !token.special);
    token.single_word = f.boolean("single_word", false);
    token.lstrip = f.boolean("lstrip", false);
    token.rstrip = f.boolean("rstrip", false);
    if (token.content.empty()) continue;
    if (const auto known = data.vocab.find(token.content)) {
      token.id = *known;
    } else {
      // As the reference does it: the next free id after the model's and the other added ones.
      const std::int64_t id = largest >= model_size ? largest + 1 : model_size;
      const auto declared = f.has("id") ? f.integer("id", 0, INT32_MAX) : id;
      token.id =
          static_cast<std::int32_t>(data.vocab.has(static_cast<std::int32_t>(id)) ? declared : id);
      if (token.id >= max_id(data.vocab.count()))
        f.wrong(fmt::format("the id {} is out of range", token.id));
      naming(f.place(), [&] { data.vocab.add(token.id, token.content, TokenKind::added); });
    }
    largest = std::max<std::int64_t>(largest, token.id);
    data.added.push_back(std::move(token));
  }
  // Of two tokens of one text, the reference looks for the special one first.
  std::stable_partition(data.added.begin(), data.added.end(),
                        [](const AddedToken& t) { return t.special; });
}

/// The ids of a special token of a template, as its table gives them.
std::vector<std::int32_t> template_ids(const Fields& processor, const std::string& name,
                                       const Vocab& vocab) {
  const Fields tokens = processor.object("special_tokens");
  if (!tokens.has(name.c_str())) tokens.wrong("'" + name + "' is used and not listed");
  std::vector<std::int32_t> ids;
  const Fields entry = tokens.object(name.c_str());
  for (const json& v : entry.array("ids")) {
    if (!v.is_number_integer() || v.get<std::int64_t>() < 0 ||
        v.get<std::int64_t>() >= vocab.size()) {
      entry.wrong("ids: expected ids of the vocabulary");
    }
    ids.push_back(v.get<std::int32_t>());
  }
  return ids;
}

std::vector<std::int32_t> read_template(const Fields& processor, const Vocab& vocab) {
  std::vector<std::int32_t> post;
  for (const json& value : processor.array("single")) {
    const Fields item(value, processor.place() + ".single");
    if (item.has("SpecialToken")) {
      const auto ids = template_ids(processor, item.object("SpecialToken").string("id"), vocab);
      post.insert(post.end(), ids.begin(), ids.end());
    } else if (item.has("Sequence")) {
      if (const std::string id = item.object("Sequence").string("id"); id != "A") {
        item.wrong("the sequence " + quote(id) + " in a template for one text");
      }
      post.push_back(Data::kSequence);
    } else {
      item.wrong("expected 'SpecialToken' or 'Sequence'");
    }
  }
  return post;
}

std::int32_t read_pair(const Fields& processor, const char* key, const Vocab& vocab) {
  const json& pair = processor.array(key);
  if (pair.size() != 2 || !pair[1].is_number_integer() || pair[1].get<std::int64_t>() < 0 ||
      pair[1].get<std::int64_t>() >= vocab.size()) {
    processor.wrong(fmt::format("{}: expected a token and its id", key));
  }
  return pair[1].get<std::int32_t>();
}

/// Wraps `post` by one processor, or by the processors of a sequence in turn.
void read_post(const json& value, const std::string& place, Data& data) {
  const Fields f(value, place);
  const std::string type = f.string("type");
  if (type == "Sequence") {
    std::size_t i = 0;
    for (const json& v : f.array("processors"))
      read_post(v, fmt::format("{}.processors[{}]", place, i++), data);
    return;
  }
  std::vector<std::int32_t> outer;
  if (type == "ByteLevel") {
    return;  // moves offsets only
  } else if (type == "TemplateProcessing") {
    outer = read_template(f, data.vocab);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    outer = {read_pair(f, "cls", data.vocab), Data::kSequence, read_pair(f, "sep", data.vocab)};
  } else {
    f.unsupported("the type " + quote(type));
  }
  std::vector<std::int32_t> joined;
  for (const std::int32_t item : outer) {
    if (item == Data::kSequence) {
      joined.insert(joined.end(), data.post.begin(), data.post.end());
    } else {
      joined.push_back(item);
    }
    if (joined.size() > kMaxPost) f.wrong(fmt::format("adds more than {} tokens", kMaxPost));
  }
  data.post = std::move(joined);
}

/// BOS and EOS are what the post-processor puts first and last; a file that adds nothing does not
/// name them.
void read_bos_eos(Data& data) {
  const auto special = [&](std::int32_t id) {
    return id >= 0 && data.special[static_cast<std::size_t>(id)];
  };
  if (special(data.post.front())) data.bos = data.post.front();
  if (special(data.post.back())) data.eos = data.post.back();
}

/// tokenizer_config.json names tokens as a text or as an object with "content".
std::optional<std::int32_t> configured(const json& config, const char* key, const Vocab& vocab) {
  const auto it = config.find(key);
  if (it == config.end()) return std::nullopt;
  if (it->is_string()) return vocab.find(it->get<std::string>());
  if (!it->is_object()) return std::nullopt;
  const auto content = it->find("content");
  return content != it->end() && content->is_string() ? vocab.find(content->get<std::string>())
                                                      : std::nullopt;
}

/// The object in a tokenizer_config.json. Errors: format (origin, place and reason).
json read_config(std::string_view text, const std::string& origin) {
  const auto depth_limit = [&](int depth, json::parse_event_t, json&) {
    if (depth > 64) fail(ErrorCode::format, "{}: nested deeper than 64", origin);
    return true;
  };
  try {
    json config = json::parse(text.begin(), text.end(), depth_limit);
    if (!config.is_object())
      fail(ErrorCode::format, "{}: expected an object, found {}", origin, config.type_name());
    return config;
  } catch (const json::parse_error& e) {
    fail(ErrorCode::format, "{}: {}", origin, json_fault(text, e.byte));
  } catch (const json::exception&) {
    fail(ErrorCode::format, "{}: not JSON: a number is out of range", origin);
  }
}

Data build(std::string_view text, const std::string& origin) {
  const TokenizerJson file = read_tokenizer_json(text, origin);
  Data data;
  data.origin = origin;
  read_model(file, data);
  read_added_tokens(file, data);
  data.normalizer = read_normalizer(file);
  data.pre_tokenizer = read_pre_tokenizer(file);
  data.decoder = read_decoder(file);
  const Fields root(file.root, origin);
  if (root.has("post_processor"))
    read_post(root.value("post_processor"), origin + ": post_processor", data);
  data.complete();
  read_bos_eos(data);
  return data;
}

}  // namespace
}  // namespace tokenizer

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& origin) {
  return Tokenizer(std::make_shared<const tokenizer::Data>(tokenizer::build(json, origin)));
}

Tokenizer Tokenizer::from_json_file(const std::filesystem::path& path) {
  tokenizer::Data data = tokenizer::build(read_file(path), path.string());
  const auto config_path = path.parent_path() / "tokenizer_config.json";
  if (std::error_code none; std::filesystem::is_regular_file(config_path, none)) {
    const auto config = tokenizer::read_config(read_file(config_path), config_path.string());
    if (const auto id = tokenizer::configured(config, "bos_token", data.vocab)) data.bos = id;
    if (const auto id = tokenizer::configured(config, "eos_token", data.vocab)) data.eos = id;
  }
  return Tokenizer(std::make_shared<const tokenizer::Data>(std::move(data)));
}

}  // namespace rlx
