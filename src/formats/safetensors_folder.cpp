// Checkpoints in several files: the index, and that it and the shards agree.
#include <algorithm>
#include <set>

#include "formats/json_cursor.h"
#include "formats/safetensors.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

// Where the index says that tensors are: tensor -> shard.
using WeightMap = std::map<std::string, std::string>;

// Shards may be links (the hub's cache is made of them), but their names never lead out of the
// folder.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

WeightMap read_index(const MappedFile& file) {
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  JsonCursor json(text, 0, file.path());
  WeightMap map;
  bool seen = false;
  json.object("'{' at the start of the index", [&](const std::string& key, std::uint64_t at) {
    if (key != "weight_map") return json.skip_value();
    if (std::exchange(seen, true)) json.fail(at, "duplicate key 'weight_map'");
    json.object("an object as 'weight_map'", [&](std::string tensor, std::uint64_t tensor_at) {
      const std::uint64_t shard_at = json.next_offset();
      std::string shard = json.string("a file name as value of a 'weight_map' key");
      if (!is_plain_file_name(shard))
        json.fail(shard_at,
                  "'weight_map': expected the plain name of a file in the folder, found {}",
                  quote(shard));
      if (const auto [it, fresh] = map.emplace(std::move(tensor), std::move(shard)); !fresh)
        json.fail(tensor_at, "'weight_map': duplicate tensor name {}", quote(it->first));
    });
  });
  json.end_of_text();
  if (map.empty()) json.fail(0, "'weight_map' is {}", seen ? "empty" : "missing");
  return map;
}

// Each tensor is in one shard only, and there where the index says.
void check_places(const WeightMap& map, const std::vector<SafetensorsFile>& shards,
                  const std::string& index) {
  std::map<std::string_view, const SafetensorsFile*> places;
  for (const SafetensorsFile& shard : shards)
    for (const SafetensorsTensor& t : shard.tensors())
      if (const auto [it, fresh] = places.emplace(t.name, &shard); !fresh)
        fail(ErrorCode::format, "{}: tensor {} is in two shards, {} and {}", index, quote(t.name),
             it->second->path(), shard.path());
  for (const auto& [tensor, shard] : map) {
    const auto at = places.find(tensor);
    const std::string found =
        at == places.end() ? "no shard" : quote(fs::path(at->second->path()).filename().string());
    if (found != quote(shard))
      fail(ErrorCode::format, "{}: tensor {}: expected in {}, found in {}", index, quote(tensor),
           quote(shard), found);
  }
}

}  // namespace

std::vector<SafetensorsFile> open_safetensors_folder(const fs::path& folder) {
  const fs::path single = folder / "model.safetensors",
                 index = folder / "model.safetensors.index.json";
  std::vector<SafetensorsFile> files;
  std::error_code ignored;
  if (fs::exists(single, ignored)) {
    files.emplace_back(single);
    return files;
  }
  if (!fs::exists(index, ignored))
    fail(ErrorCode::io,
         "{}: expected model.safetensors or model.safetensors.index.json in the folder, found "
         "neither",
         folder.string());
  const MappedFile file(index);
  const WeightMap map = read_index(file);
  std::set<std::string> names;
  for (const auto& [tensor, shard] : map) names.insert(shard);
  for (const std::string& name : names) {
    if (!fs::exists(folder / name, ignored))
      fail(ErrorCode::io, "{}: the shard that {} names is missing", (folder / name).string(),
           file.path());
    files.emplace_back(folder / name);
  }
  check_places(map, files, file.path());
  return files;
}

}  // namespace rlx
