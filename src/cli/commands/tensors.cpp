// rlx tensors: what a model file holds; rlx dequantize: raw blocks as float32.
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "runtime/text_model.h"
#include "tensor/quant/codec.h"

namespace rlx::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Listed {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

/// The tensors and metadata of a file, or of a folder's safetensors.
struct Contents {
  std::string format;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<Listed> tensors;
  std::shared_ptr<const GgufFile> gguf;  // keep the data alive
  std::vector<SafetensorsFile> shards;
};

template <typename File>
void add_tensors(Contents& c, const File& file) {
  for (const auto& t : file.tensors()) c.tensors.push_back({t.name, t.dtype, t.shape, t.data});
}

Contents open(const fs::path& path) {
  Contents c;
  refuse_compiled_file(path.string());
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    c.shards = open_safetensors_folder(path);
  else if (path.extension() == ".safetensors")
    c.shards.emplace_back(path);
  if (!c.shards.empty() || fs::is_directory(path, ignored)) {
    c.format = "safetensors";
    for (const SafetensorsFile& f : c.shards) {
      for (const auto& [key, value] : f.metadata()) c.metadata.emplace_back(key, value);
      add_tensors(c, f);
    }
    return c;
  }
  c.gguf = std::make_shared<const GgufFile>(path);
  c.format = fmt::format("GGUF v{}", c.gguf->version());
  for (const GgufFile::Entry& e : c.gguf->metadata()) {
    // The short form of a text is cut; templates are wanted whole.
    const bool text = e.type == GgufType::string;
    c.metadata.emplace_back(e.key,
                            text ? std::string(c.gguf->get_string(e.key).value_or("")) : e.text);
  }
  add_tensors(c, *c.gguf);
  return c;
}

std::vector<float> floats(const Listed& t) {
  const DTypeInfo& type = info(t.dtype);
  const auto n = static_cast<std::int64_t>(t.data.size()) / type.block_bytes * type.block_elements;
  std::vector<float> out(static_cast<std::size_t>(n));
  decoder(t.dtype)(t.data.data(), out.data(), n);
  return out;
}

struct TensorsFlags {
  std::string file, name;
  std::optional<std::string> dump;
  bool json = false;
};

std::string one_line_of(std::string_view text, std::size_t most) {
  const std::string line = one_line(text);
  if (line.size() <= most) return line;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80)
    --end;  // not inside a character
  return line.substr(0, end) + "...";
}

void print_table(const Contents& c) {
  out().write(fmt::format("{}, {} tensors, {} metadata entries\n\n", c.format, c.tensors.size(),
                          c.metadata.size()));
  for (const auto& [key, value] : c.metadata)
    out().write(fmt::format("{} = {}\n", one_line(key), one_line_of(value, 100)));
  if (!c.metadata.empty()) out().write("\n");
  for (const Listed& t : c.tensors)
    out().write(fmt::format("{:<8} {:<20} {:>14} {}\n", name(t.dtype),
                            fmt::format("[{}]", fmt::join(t.shape, ", ")), t.data.size(),
                            one_line(t.name)));
}

void print_json(const Contents& c) {
  ordered_json json = {{"format", c.format},
                       {"metadata", ordered_json::object()},
                       {"tensors", ordered_json::array()}};
  for (const auto& [key, value] : c.metadata) json["metadata"][key] = value;
  for (const Listed& t : c.tensors)
    json["tensors"].push_back(
        {{"name", t.name}, {"type", name(t.dtype)}, {"shape", t.shape}, {"bytes", t.data.size()}});
  write_json(json);
}

std::string_view bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

int run_tensors(const TensorsFlags& f) {
  if (f.name.empty() == f.dump.has_value())
    fail(ErrorCode::usage, "rlx tensors: {}",
         f.dump ? "--dump needs the NAME of a tensor" : "a NAME needs --dump OUT.f32");
  const Contents c = open(f.file);
  if (!f.dump) {
    f.json ? print_json(c) : print_table(c);
    return 0;
  }
  std::vector<std::string> names;
  for (const Listed& t : c.tensors) {
    if (t.name == f.name) {
      const std::vector<float> values = floats(t);
      write_result(*f.dump, bytes_of(values), {&f.file, 1});
      say(fmt::format("{}: {} {} as {} float32 values", *f.dump, name(t.dtype), t.name,
                      values.size()));
      return 0;
    }
    names.push_back(t.name);
  }
  const std::string near = nearest(f.name, names);
  fail(ErrorCode::usage, "{}: no tensor \"{}\"{}", f.file, f.name,
       near.empty() ? "" : ", did you mean \"" + near + "\"?");
}

Job declare_tensors(Arguments& a) {
  const auto f = std::make_shared<TensorsFlags>();
  a.positional("FILE", f->file, "GGUF or safetensors file, or model folder");
  a.positional("NAME", f->name, "Name of a tensor, with --dump", false);
  a.text("--dump", f->dump, "Write the tensor to this file, as little-endian float32");
  a.flag("--json", f->json, "JSON instead of the table");
  return [f] { return run_tensors(*f); };
}

struct DequantizeFlags {
  std::optional<std::string> type, in, out;
};

DType stored_type(const std::string& text) {
  std::string known;
  for (const DTypeInfo& t : all_dtypes()) {
    if (t.gguf_id < 0) continue;
    if (dtype_from_name(text) == t.dtype) return t.dtype;
    known += (known.empty() ? "" : ", ") + std::string(t.name);
  }
  fail(ErrorCode::unsupported, "--type: expected one of {}, found \"{}\"", known, text);
}

int dequantize(const DequantizeFlags& f) {
  if (!f.type || !f.in || !f.out)
    fail(ErrorCode::usage,
         "rlx dequantize: expected --type TYPE --in FILE --out FILE; see `rlx dequantize --help`");
  const DType type = stored_type(*f.type);
  const MappedFile file(*f.in);
  const auto block = static_cast<std::size_t>(info(type).block_bytes);
  if (file.bytes().size() % block != 0)
    fail(ErrorCode::format, "{}: expected blocks of {} bytes ({}), found {} bytes", *f.in, block,
         info(type).name, file.bytes().size());
  const std::vector<float> values = floats({"", type, {}, file.bytes()});
  write_result(*f.out, bytes_of(values), {&*f.in, 1});
  return 0;
}

Job declare_dequantize(Arguments& a) {
  const auto f = std::make_shared<DequantizeFlags>();
  a.text("--type", f->type, "Type of the blocks, in any case: q4_0, q4_K, ...");
  a.text("--in", f->in, "File with raw blocks");
  a.text("--out", f->out, "File for the values, little-endian float32");
  return [f] { return dequantize(*f); };
}

}  // namespace

const Command kTensors = {"tensors", "Tensors and metadata of a model file",
                          "  rlx tensors model.gguf\n"
                          "  rlx tensors model.gguf token_embd.weight --dump embedding.f32\n",
                          declare_tensors};
const Command kDequantize = {"dequantize", "Raw blocks to float32",
                             "  rlx dequantize --type q4_K --in rows.blocks --out rows.f32\n",
                             declare_dequantize};

}  // namespace rlx::cli
