// Reading of compile profiles (https://toml.io/en/v1.0.0).
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "compiler/profile.h"

namespace rlx {
namespace {

// toml++ bounds the depth of values but not that of dotted names, and frees tables by recursion.
constexpr std::ptrdiff_t kMostDots = 4096;

constexpr std::string_view kKvNames[] = {"f32", "f16", "bf16", "q8"};

std::string_view kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a float";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

class ProfileReader {
 public:
  explicit ProfileReader(std::string_view origin) : origin_(origin) {}

  CompileProfile read(const toml::table& top) {
    check_keys("", top, {"backend", "fusion", "passes", "precision", "quant"});
    if (const toml::node* n = top.get("fusion")) profile_.fusion = boolean("fusion", *n);
    if (const toml::node* n = top.get("passes")) read_passes(table("passes", *n));
    if (const toml::node* n = top.get("precision")) read_precision(table("precision", *n));
    if (const toml::node* n = top.get("quant")) read_quant(*n);
    if (const toml::node* n = top.get("backend")) read_backend(table("backend", *n));
    return std::move(profile_);
  }

 private:
  [[noreturn]] void error(toml::source_index line, const std::string& what) const {
    fail(ErrorCode::format, "{}:{}: {}", origin_, line, what);
  }
  [[noreturn]] void error(const toml::node& at, const std::string& what) const {
    error(at.source().begin.line, what);
  }
  [[noreturn]] void wrong_type(std::string_view key, std::string_view wanted,
                               const toml::node& found) const {
    error(found, fmt::format("{}: expected {}, found {}", key, wanted, kind_of(found)));
  }

  void check_keys(std::string_view prefix, const toml::table& in,
                  std::vector<std::string> known) const {
    for (std::string& name : known) name = fmt::format("{}{}", prefix, name);
    for (const auto& [key, node] : in) {
      const std::string full = fmt::format("{}{}", prefix, key.str());
      if (std::find(known.begin(), known.end(), full) != known.end()) continue;
      error(key.source().begin.line, fmt::format("unknown key \"{}\"{}", full, did_you_mean_of(full, known)));
    }
  }

  const toml::table& table(std::string_view key, const toml::node& node) const {
    if (const toml::table* t = node.as_table()) return *t;
    wrong_type(key, "a table", node);
  }
  bool boolean(std::string_view key, const toml::node& node) const {
    if (const auto* v = node.as_boolean()) return v->get();
    wrong_type(key, "true or false", node);
  }
  const std::string& string(std::string_view key, const toml::node& node) const {
    if (const auto* v = node.as_string()) return v->get();
    wrong_type(key, "a string", node);
  }

  void read_passes(const toml::table& passes) {
    for (const auto& [key, node] : passes) {
      const std::string name(key.str());
      // The name first: a wrong value of a pass that is not there says nothing.
      if (const std::string fault = pass_switch_fault(name, true); !fault.empty())
        error(key.source().begin.line, fmt::format("passes: {}", fault));
      const bool on = boolean(fmt::format("passes.{}", name), node);
      if (const std::string fault = pass_switch_fault(name, on); !fault.empty())
        error(node, fmt::format("passes: {}", fault));
      profile_.passes[name] = on;
    }
  }

  void read_precision(const toml::table& precision) {
    check_keys("precision.", precision, {"activations", "kv"});
    if (const toml::node* n = precision.get("activations")) {
      const std::string& text = string("precision.activations", *n);
      const Activations all[] = {Activations::automatic, Activations::int8, Activations::bf16,
                                 Activations::f32};
      const auto* it = std::find_if(std::begin(all), std::end(all),
                                    [&](Activations a) { return name(a) == text; });
      if (it == std::end(all))
        error(*n,
              fmt::format("precision.activations: expected auto, int8, bf16 or f32, found \"{}\"",
                          text));
      profile_.precision.activations = *it;
    }
    if (const toml::node* n = precision.get("kv")) {
      const std::string& text = string("precision.kv", *n);
      if (std::find(std::begin(kKvNames), std::end(kKvNames), text) == std::end(kKvNames))
        error(*n, fmt::format("precision.kv: expected f32, f16, bf16 or q8, found \"{}\"", text));
      profile_.precision.kv = parse_kv(text);
    }
  }

  void read_quant(const toml::node& node) {
    QuantScheme quant;
    const toml::node *weights = &node, *group = nullptr;
    if (const toml::table* t = node.as_table()) {
      check_keys("quant.", *t, {"group", "weights"});
      weights = t->get("weights");
      if (weights == nullptr)
        error(node, "quant: expected quant.weights, the format of the weights, found none");
      group = t->get("group");
      if (group != nullptr) {
        const auto* v = group->as_integer();
        if (v == nullptr) wrong_type("quant.group", "an integer", *group);
        // 0 is the default of the plain data only.
        if (v->get() < 1)
          error(*group, fmt::format("quant.group: expected at least 1, found {}", v->get()));
        quant.group = v->get();
      }
    } else if (!node.is_string()) {
      wrong_type("quant", "a string or a table", node);
    }
    const std::string& text = string(weights == &node ? "quant" : "quant.weights", *weights);
    const std::optional<DType> dtype = dtype_from_name(text);
    if (!dtype)
      error(*weights, fmt::format("quant: expected a block format of weights, found \"{}\"", text));
    quant.weights = *dtype;
    if (const std::string fault = quant_fault(quant); !fault.empty())
      error(group != nullptr ? *group : *weights, fmt::format("quant: {}", fault));
    profile_.quant = quant;
  }

  // Tables of tables, joined to dotted names; without recursion, since the text sets the depth.
  void read_backend(const toml::table& top) {
    std::vector<std::pair<std::string, const toml::table*>> open{{"", &top}};
    while (!open.empty()) {
      const auto [prefix, in] = std::move(open.back());
      open.pop_back();
      for (const auto& [key, node] : *in) {
        // Else backend."a.b" and backend.a.b would be one name.
        if (key.str().empty() || key.str().find('.') != std::string_view::npos)
          error(key.source().begin.line,
                fmt::format("backend: expected a name without dots, found \"{}\"", key.str()));
        std::string full = fmt::format("{}{}", prefix, key.str());
        if (const toml::table* t = node.as_table())
          open.emplace_back(full + ".", t);
        else
          profile_.backend[full] = backend_value("backend." + full, node);
      }
    }
  }

  BackendValue backend_value(std::string_view key, const toml::node& node) const {
    if (const auto* v = node.as_boolean()) return v->get();
    if (const auto* v = node.as_integer()) return v->get();
    if (const auto* v = node.as_string()) return v->get();
    if (const auto* v = node.as_floating_point()) {
      if (std::isfinite(v->get())) return v->get();
      error(node, fmt::format("{}: expected a finite number, found {}", key, v->get()));
    }
    wrong_type(key, "a boolean, an integer, a float or a string", node);
  }

  std::string_view origin_;
  CompileProfile profile_;
};

}  // namespace

CompileProfile parse_profile_toml(std::string_view text, std::string_view origin) {
  const std::ptrdiff_t dots = std::count(text.begin(), text.end(), '.');
  if (dots > kMostDots)
    fail(ErrorCode::format,
         "{}: expected at most {} dots, which bound the depth of tables, found {}", origin,
         kMostDots, dots);
  toml::table top;
  try {
    top = toml::parse(text);
  } catch (const toml::parse_error& e) {
    fail(ErrorCode::format, "{}:{}: {}", origin, e.source().begin.line, e.description());
  }
  return ProfileReader(origin).read(top);
}

}  // namespace rlx
