// The list of the built-in ops. A new op in a family does not touch this file; a new family adds
// its list.
#include <algorithm>
#include <array>

#include "ir/op_impl.h"
#include "ir/source.h"
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/block.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/fft.h"
#include "ops/index.h"
#include "ops/lora.h"
#include "ops/matmul.h"
#include "ops/moe.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/product.h"
#include "ops/quant.h"
#include "ops/reduction.h"
#include "ops/sample_op.h"
#include "ops/select.h"
#include "ops/shape_ops.h"

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

constexpr auto kOps =
    make_table(SourceOps{} + ElementwiseOps{} + NormOps{} + QuantOps{} + IndexOps{} + MatmulOps{} +
               AttentionOps{} + BlockOps{} + ArithmeticOps{} + ShapeOps{} + ReductionOps{} +
               ProductOps{} + SelectOps{} + MoeOps{} + LoraOps{} + SampleOps{} + ConvOps{} +
               PoolOps{} + FftOps{});

constexpr bool ids_are_unique() {
  return std::adjacent_find(kOps.begin(), kOps.end(), [](const OpDef& a, const OpDef& b) {
           return a.id == b.id;
         }) == kOps.end();
}
static_assert(ids_are_unique(), "two ops share a name, or their names share a hash");

}  // namespace

std::span<const OpDef> all_ops() { return kOps; }

const OpDef* find_op(std::uint64_t id) {
  const auto at =
      std::lower_bound(kOps.begin(), kOps.end(), id,
                       [](const OpDef& def, std::uint64_t key) { return def.id < key; });
  return at != kOps.end() && at->id == id ? &*at : nullptr;
}

const OpDef* find_op(std::string_view name) {
  const OpDef* def = find_op(op_id(name));
  return def != nullptr && def->name == name ? def : nullptr;
}

const OpDef& op_def_by_id(std::uint64_t id, std::string_view name) {
  const OpDef* def = find_op(id);
  RLX_CHECK(def != nullptr && def->name == name,
            fmt::format("the op \"{}\" is in no list of ops/all.cpp", name));
  return *def;
}

}  // namespace rlx
