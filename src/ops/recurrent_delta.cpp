// The gated delta rule.
#include <cmath>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/recurrent.h"
#include "ops/recurrent_state.h"
#include "ops/samples.h"

namespace rlx {

void GatedDelta::infer(InferContext& c) const {
  const recurrent::Form form = recurrent::infer_form(c, kState);
  recurrent::infer_x(c, form);
  const std::int64_t key_dim = recurrent::divide(c, 0, key_heads, "key_heads");
  const std::int64_t value_dim = recurrent::divide(c, 2, heads, "heads");
  if (heads % key_heads != 0)
    c.fail("key_heads: expected a divisor of the {} heads, found {}", heads, key_heads);
  checks::attribute(c, "eps", double{eps}, 0, checks::kNoLimit);
  if (!std::isfinite(scale)) c.fail("scale: expected a finite value, found {}", scale);
  recurrent::infer_rows(c, 1, key_heads * key_dim, "the columns of q");
  recurrent::infer_rows(c, 2, heads * value_dim, "heads * value_dim");
  for (int i : {3, 4}) recurrent::infer_rows(c, i, heads, "heads");
  c.out(c.in(2));
  recurrent::infer_state(c, form, kState, {Dim(heads), Dim(key_dim), Dim(value_dim)});
}

namespace {

// Lanes first .. first + n of a row, divided by their length when `op` asks for it.
std::vector<double> load_key(const GatedDelta& op, const TensorView& v, std::int64_t row,
                             std::int64_t first, std::int64_t n) {
  std::vector<double> lanes;
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    lanes.push_back(access::load(v, row, first + i));
    squares += lanes.back() * lanes.back();
  }
  if (op.l2_norm)
    for (double& lane : lanes) lane /= std::sqrt(squares + double{op.eps});
  return lanes;
}

}  // namespace

void GatedDelta::reference(const KernelArgs& a) const {
  const TensorView &value = a.in[2], &y = a.out[0];
  const recurrent::Runs runs(a, kState);
  const std::int64_t keys = access::columns(a.in[0]) / key_heads, values = access::columns(value) / heads;
  const access::Part part = access::part_of(a, heads);
  for (std::int64_t h = part.begin; h < part.end; ++h)
    for (std::int64_t run = 0; run < runs.count(); ++run) {
      std::vector<double> s = runs.load(run, h * keys * values, keys * values);
      for (std::int64_t r = runs.begin(run); r < runs.end(run); ++r) {
        const std::int64_t lane = h / (heads / key_heads) * keys;
        const std::vector<double> q = load_key(*this, a.in[0], r, lane, keys),
                                  k = load_key(*this, a.in[1], r, lane, keys);
        const double decay = std::exp(access::load(a.in[3], r, h)),
                     beta = access::load(a.in[4], r, h);
        for (std::int64_t v = 0; v < values; ++v) {
          double recalled = 0, sum = 0;
          for (std::size_t i = 0; i < k.size(); ++i)
            recalled += k[i] * decay * s[i * static_cast<std::size_t>(values) + static_cast<std::size_t>(v)];
          const double u = beta * (access::load(value, r, h * values + v) - recalled);
          for (std::size_t i = 0; i < k.size(); ++i) {
            double& cell = s[i * static_cast<std::size_t>(values) + static_cast<std::size_t>(v)];
            cell = runs.rounded(decay * cell + k[i] * u);
            sum += q[i] * cell;
          }
          access::store(y, r, h * values + v, sum * double{scale});
        }
      }
      runs.store(run, h * keys * values, s);
    }
}

std::vector<Sample> GatedDelta::samples() {
  using samples::normal;
  struct Sizes {
    std::int32_t heads, key_heads, keys, values;
  };
  constexpr Sizes kSizes[] = {{4, 2, 16, 16}, {3, 1, 17, 5}, {2, 2, 128, 64}, {6, 3, 1, 33}};
  std::vector<Sample> list;
  std::size_t turn = 0;
  const auto add = [&](const std::string& name, std::vector<Dim> leading, const Sizes& size,
                       std::vector<SampleOperand> state) {
    const auto rows = [&](std::int64_t columns, float spread) {
      std::vector<Dim> dims = leading;
      dims.push_back(columns);
      return SampleOperand{Shape(std::span<const Dim>(dims), DType::f32), Fill::normal, spread, {}};
    };
    GatedDelta op{.heads = size.heads, .key_heads = size.key_heads};
    op.l2_norm = turn % 3 != 1;
    op.scale = turn % 2 == 0 ? 1.0f / std::sqrt(static_cast<float>(size.keys)) : -2.0f;
    op.eps = turn % 4 == 3 ? 0.5f : 1e-6f;
    // Keys that are not normed are short, else the delta rule diverges.
    const float length = op.l2_norm ? 1.0f : 0.5f / std::sqrt(static_cast<float>(size.keys));
    std::vector<SampleOperand> operands = {
        rows(size.key_heads * size.keys, 1.0f), rows(size.key_heads * size.keys, length),
        rows(size.heads * size.values, 1.0f), rows(size.heads, 0.05f), rows(size.heads, 0.4f)};
    for (SampleOperand& o : state) operands.push_back(std::move(o));
    list.push_back(make_sample(name, op, std::move(operands), size.keys));
    ++turn;
  };
  for (const samples::Batch& batch : samples::batches()) {
    const Sizes& s = kSizes[turn % 4];
    add(batch.name, {batch.total_rows()}, s,
        {batch.recurrent({s.heads, s.keys, s.values}), batch.seq_start(), batch.pasts(),
         batch.slot_ids()});
  }
  for (const std::int64_t seq : {1, 9}) {
    const Sizes& s = kSizes[turn % 4];
    add(fmt::format("from_zeros_{}", seq), {2, seq}, s, {});
    add(fmt::format("functional_{}", seq), {3, seq}, s, {normal({3, s.heads, s.keys, s.values})});
  }
  return list;
}

}  // namespace rlx
