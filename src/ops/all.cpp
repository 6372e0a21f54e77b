// The list of the built-in ops, and the registry of those of the user. A new op in a family does not
// touch this file; a new family adds its list.
#include <algorithm>
#include <array>
#include <deque>
#include <mutex>
#include <shared_mutex>

#include "ir/op_impl.h"
#include "ir/source.h"
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/block.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/conv.h"
#include "ops/dense_attention.h"
#include "ops/elementwise.h"
#include "ops/expert_product.h"
#include "ops/fft.h"
#include "ops/fused.h"
#include "ops/index.h"
#include "ops/linear_scan.h"
#include "ops/lora.h"
#include "ops/matmul.h"
#include "ops/moe.h"
#include "ops/norm.h"
#include "ops/plane_conv.h"
#include "ops/pool.h"
#include "ops/product.h"
#include "ops/quant.h"
#include "ops/recurrent.h"
#include "ops/reduction.h"
#include "ops/region.h"
#include "ops/sample_op.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "ops/weight_product.h"
#include "ops/winograd_conv.h"

namespace rlx {
namespace {

template <typename... A, typename... B>
constexpr OpList<A..., B...> operator+(OpList<A...>, OpList<B...>) {
  return {};
}

template <typename... Ops>
constexpr std::array<OpDef, sizeof...(Ops)> make_table(OpList<Ops...>) {
  std::array<OpDef, sizeof...(Ops)> table = {detail::make_op_def<Ops>()...};
  std::sort(table.begin(), table.end(), [](const OpDef& a, const OpDef& b) { return a.id < b.id; });
  return table;
}

constexpr auto kOps = make_table(
    SourceOps{} + ElementwiseOps{} + NormOps{} + QuantOps{} + IndexOps{} + MatmulOps{} + AttentionOps{} +
    BlockOps{} + ArithmeticOps{} + ShapeOps{} + ReductionOps{} + ProductOps{} + SelectOps{} + ControlOps{} +
    RecurrentOps{} + MoeOps{} + LoraOps{} + SampleOps{} + DenseAttentionOps{} + ConstantOps{} + WeightProductOps{} +
    ExpertProductOps{} + LinearScanOps{} + ConvOps{} + PoolOps{} + FftOps{} + FusedOps{} + RegionOps{} +
    PlaneConvOps{} + WinogradConvOps{});

constexpr bool ids_are_unique() {
  return std::adjacent_find(kOps.begin(), kOps.end(), [](const OpDef& a, const OpDef& b) {
           return a.id == b.id;
         }) == kOps.end();
}
static_assert(ids_are_unique(), "two ops share a name, or their names share a hash");

const OpDef* find_built_in(std::uint64_t id) {
  const auto at =
      std::lower_bound(kOps.begin(), kOps.end(), id,
                       [](const OpDef& def, std::uint64_t key) { return def.id < key; });
  return at != kOps.end() && at->id == id ? &*at : nullptr;
}

// Ops of the user. Records never move or go: nodes point at them.
struct UserOps {
  std::shared_mutex mutex;
  std::deque<OpDef> defs;
  std::deque<std::string> names;  // a name may come from a library that is unloaded later
};
UserOps& registry() {
  static UserOps* const ops = new UserOps;  // never destroyed: graphs may outlive main
  return *ops;
}

const OpDef* find_user(std::uint64_t id) {
  UserOps& users = registry();
  const std::shared_lock lock(users.mutex);
  for (const OpDef& def : users.defs)
    if (def.id == id) return &def;
  return nullptr;
}

bool is_op_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

}  // namespace

std::span<const OpDef> all_ops() { return kOps; }

std::vector<const OpDef*> user_ops() {
  UserOps& users = registry();
  const std::shared_lock lock(users.mutex);
  std::vector<const OpDef*> list;
  for (const OpDef& def : users.defs) list.push_back(&def);
  return list;
}

const OpDef& register_op(const OpDef& def) {
  if (!is_op_name(def.name))
    fail(ErrorCode::invalid_argument, "\"{}\" is no name of an op: expected [a-z_][a-z0-9_]*", def.name);
  UserOps& users = registry();
  const std::unique_lock lock(users.mutex);
  const bool taken = find_built_in(def.id) != nullptr ||
                     std::any_of(users.defs.begin(), users.defs.end(), [&](const OpDef& d) { return d.id == def.id; });
  if (taken) fail(ErrorCode::invalid_argument, "an op named \"{}\" exists: expected a name of its own", def.name);
  users.names.emplace_back(def.name);
  users.defs.push_back(def);
  users.defs.back().name = users.names.back();
  return users.defs.back();
}

const OpDef* find_op(std::uint64_t id) {
  const OpDef* def = find_built_in(id);
  return def != nullptr ? def : find_user(id);
}

const OpDef* find_op(std::string_view name) {
  const OpDef* def = find_op(op_id(name));
  return def != nullptr && def->name == name ? def : nullptr;
}

const OpDef& op_def_by_id(std::uint64_t id, std::string_view name) {
  const OpDef* def = find_op(id);
  if (def == nullptr || def->name != name)
    fail(ErrorCode::invalid_argument, "the op \"{}\" is neither built in nor registered (rlx::register_op)", name);
  return *def;
}

}  // namespace rlx
