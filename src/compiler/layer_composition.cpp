#include "compiler/layer_composition.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"

namespace rlx {
namespace {

bool is_layer_name(std::string_view name) {
  bool empty_part = true, number = true;
  for (const char c : name) {
    if (c == '.') {
      if (empty_part) return false;
      empty_part = number = true;
      continue;
    }
    const bool digit = c >= '0' && c <= '9';
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
    if (!digit && !letter) return false;
    empty_part = false;
    number = number && digit;
  }
  return !empty_part && !number;
}

}  // namespace

LayerComposition LayerComposition::single(std::string layer) {
  LayerComposition c = homogeneous(std::move(layer), 1);
  c.runs_[0].numbered = false;
  return c;
}

LayerComposition LayerComposition::homogeneous(std::string layer, std::int64_t count) {
  if (!is_layer_name(layer))
    fail(ErrorCode::invalid_argument,
         "layer composition: expected a layer's name of letters, digits, \"_\" and \"-\" in dotted "
         "parts, the last no number, found \"{}\"",
         layer);
  if (count < 1)
    fail(ErrorCode::invalid_argument,
         "layer composition: expected a count of at least 1 for \"{}\", found {}", layer, count);
  LayerComposition c;
  c.runs_.push_back({std::move(layer), count, true});
  c.normalise();
  return c;
}

LayerComposition LayerComposition::pair(const LayerComposition& head,
                                        const LayerComposition& tail) {
  return sequence({head, tail});
}

LayerComposition LayerComposition::pair(std::string head, std::string tail) {
  return pair(single(std::move(head)), single(std::move(tail)));
}

LayerComposition LayerComposition::sequence(const std::vector<LayerComposition>& parts) {
  if (parts.empty())
    fail(ErrorCode::invalid_argument, "layer composition: expected at least one part, found none");
  LayerComposition c;
  for (const LayerComposition& part : parts)
    c.runs_.insert(c.runs_.end(), part.runs_.begin(), part.runs_.end());
  c.normalise();
  return c;
}

void LayerComposition::normalise() {
  std::int64_t left = kMostStages;
  std::set<std::string> seen, numbered;
  for (const Run& run : runs_) {
    if (run.count > left)
      fail(ErrorCode::limit, "layer composition: expected at most {} stages, found more at \"{}\"",
           kMostStages, run.layer);
    left -= run.count;
    const bool again = !seen.insert(run.layer).second;
    if (again || run.numbered) numbered.insert(run.layer);
  }
  std::vector<Run> joined;
  for (Run& run : runs_) {
    run.numbered = numbered.contains(run.layer);
    if (!joined.empty() && joined.back().layer == run.layer)
      joined.back().count += run.count;
    else
      joined.push_back(std::move(run));
  }
  runs_ = std::move(joined);
}

std::vector<std::string> LayerComposition::stages() const {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(size()));
  std::map<std::string_view, std::int64_t> next;
  for (const Run& run : runs_)
    for (std::int64_t i = 0; i < run.count; ++i)
      names.push_back(run.numbered ? fmt::format("{}.{}", run.layer, next[run.layer]++)
                                   : run.layer);
  return names;
}

std::int64_t LayerComposition::size() const {
  std::int64_t count = 0;
  for (const Run& run : runs_) count += run.count;
  return count;
}

void LayerComposition::write_key(KeyWriter& key) const {
  key.list("layers", runs_.size());
  for (const Run& run : runs_)
    key.text("layer", run.layer).integer("count", run.count).boolean("numbered", run.numbered);
}

Digest LayerComposition::digest() const {
  KeyWriter key("layers");
  write_key(key);
  return key.finish();
}

}  // namespace rlx
