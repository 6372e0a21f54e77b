// The selective scans of Mamba and Mamba-2.
#include <cmath>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/recurrent.h"
#include "ops/recurrent_state.h"
#include "ops/samples.h"

namespace rlx {

void SelectiveScan::infer(InferContext& c) const {
  const recurrent::Form form = recurrent::infer_form(c, kState);
  recurrent::infer_x(c, form);
  const Dim n = c.in(0).dim(-1);
  recurrent::infer_rows(c, 1, n, "the columns of x");
  checks::plain(c, 2, DType::f32, 2);
  checks::has_columns(c, 2, n, "the columns of x");
  const auto states = c.in(2).dim(0).constant();
  if (!states || *states < 1)
    c.fail("a: expected a fixed number of 1 or more rows, found {}", c.in(2).text());
  for (int i : {3, 4}) recurrent::infer_rows(c, i, *states, "the rows of a");
  checks::vector(c, 5, DType::f32, n, "the columns of x");
  c.out(c.in(0));
  recurrent::infer_state(c, form, kState, {Dim(*states), n});
}

void SelectiveScan::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &y = a.out[0];
  const recurrent::Runs runs(a, kState);
  const std::int64_t states = a.in[2].dims[0], n = access::columns(x);
  const access::Part part = access::part_of(a, n);
  for (std::int64_t lane = part.begin; lane < part.end; ++lane)
    for (std::int64_t run = 0; run < runs.count(); ++run) {
      std::vector<double> h = runs.load(run, lane, states, n);
      for (std::int64_t r = runs.begin(run); r < runs.end(run); ++r) {
        const double in = access::load(x, r, lane), raw = access::load(a.in[1], r, lane);
        const double dt = softplus ? recurrent::softplus(raw) : raw;
        double sum = 0;
        for (std::int64_t s = 0; s < states; ++s) {
          double& state = h[static_cast<std::size_t>(s)];
          state = runs.rounded(std::exp(dt * access::load(a.in[2], s, lane)) * state +
                                     dt * access::load(a.in[3], r, s) * in);
          sum += access::load(a.in[4], r, s) * state;
        }
        access::store(y, r, lane, sum + access::load(a.in[5], 0, lane) * in);
      }
      runs.store(run, lane, h, n);
    }
}

namespace {

// Sizes that a scan is sampled with; `lanes` are those of a head.
struct ScanSizes {
  std::int64_t heads, groups, lanes, states;
};

// The operand a: in turn what forgets fast (-1 .. -4) and what drifts slowly either way.
SampleOperand decays(std::initializer_list<Dim> dims, std::size_t turn) {
  return turn % 2 == 0 ? samples::integers(dims, -4.0f) : samples::normal(dims, DType::f32, 0.01f);
}

}  // namespace

std::vector<Sample> SelectiveScan::samples() {
  using samples::normal;
  std::vector<Sample> list;
  constexpr std::int64_t kLanes[] = {17, 16, 5, 64, 33}, kStates[] = {16, 1, 7, 8};
  std::size_t turn = 0;
  const auto add = [&](const std::string& name, std::vector<Dim> leading,
                       std::vector<SampleOperand> state, std::int64_t n, std::int64_t states) {
    const auto rows = [&](std::int64_t columns, float scale = 1.0f) {
      SampleOperand o = normal({1}, DType::f32, scale);
      std::vector<Dim> dims = leading;
      dims.push_back(columns);
      o.shape = Shape(std::span<const Dim>(dims), DType::f32);
      return o;
    };
    const SelectiveScan op{.softplus = turn % 3 != 2};
    // Without softplus dt may be negative: small enough that nothing overflows.
    std::vector<SampleOperand> operands = {rows(n),
                                           rows(n, op.softplus ? 3.0f : 0.01f),
                                           decays({states, n}, turn),
                                           rows(states),
                                           rows(states),
                                           normal({n})};
    for (SampleOperand& o : state) operands.push_back(std::move(o));
    list.push_back(make_sample(name, op, std::move(operands), states));
    ++turn;
  };
  for (const samples::Batch& batch : samples::batches()) {
    const std::int64_t n = samples::deal(kLanes, turn), states = samples::deal(kStates, turn);
    add(batch.name, {batch.total_rows()},
        {batch.recurrent({states, n}), batch.seq_start(), batch.pasts(), batch.slot_ids()}, n,
        states);
  }
  for (const std::int64_t seq : {1, 9}) {
    const std::int64_t n = samples::deal(kLanes, turn), states = samples::deal(kStates, turn);
    add(fmt::format("from_zeros_{}", seq), {2, seq}, {}, n, states);
    add(fmt::format("functional_{}", seq), {3, seq}, {normal({3, states, n})}, n, states);
  }
  return list;
}

void SsdScan::infer(InferContext& c) const {
  const recurrent::Form form = recurrent::infer_form(c, kState);
  recurrent::infer_x(c, form);
  const std::int64_t lanes = recurrent::divide(c, 0, heads, "heads");
  const std::int64_t states = recurrent::divide(c, 3, groups, "groups");
  if (heads % groups != 0)
    c.fail("groups: expected a divisor of the {} heads, found {}", heads, groups);
  if (!(dt_min >= 0 && dt_min <= dt_max))
    c.fail("dt_min, dt_max: expected 0 <= dt_min <= dt_max, found {} and {}", dt_min, dt_max);
  recurrent::infer_rows(c, 1, heads, "heads");
  for (int i : {3, 4}) recurrent::infer_rows(c, i, groups * states, "groups * states");
  for (int i : {2, 5, 6}) checks::vector(c, i, DType::f32, heads, "heads");
  c.out(c.in(0));
  recurrent::infer_state(c, form, kState, {Dim(heads), Dim(states), Dim(lanes)});
}

void SsdScan::reference(const KernelArgs& args) const {
  const TensorView &x = args.in[0], &b = args.in[3], &c = args.in[4], &y = args.out[0];
  const recurrent::Runs runs(args, kState);
  const std::int64_t lanes = access::columns(x) / heads, states = access::columns(b) / groups;
  const access::Part part = access::part_of(args, heads);
  std::vector<double> in(static_cast<std::size_t>(lanes)), sum(in.size());
  for (std::int64_t h = part.begin; h < part.end; ++h)
    for (std::int64_t run = 0; run < runs.count(); ++run) {
      const std::int64_t group = h / (heads / groups) * states;
      std::vector<double> state = runs.load(run, h * states * lanes, states * lanes);
      for (std::int64_t r = runs.begin(run); r < runs.end(run); ++r) {
        double dt = access::load(args.in[1], r, h) + access::load(args.in[6], 0, h);
        if (softplus) dt = recurrent::softplus(dt);
        dt = std::min(std::max(dt, double{dt_min}), double{dt_max});
        const double decay = std::exp(dt * access::load(args.in[2], 0, h));
        const double skip = access::load(args.in[5], 0, h);
        for (std::size_t p = 0; p < in.size(); ++p) {
          in[p] = access::load(x, r, h * lanes + static_cast<std::int64_t>(p));
          sum[p] = skip * in[p];
        }
        for (std::int64_t n = 0; n < states; ++n) {
          const double into = dt * access::load(b, r, group + n), out = access::load(c, r, group + n);
          double* s = state.data() + n * lanes;
          for (std::size_t p = 0; p < in.size(); ++p) {
            s[p] = runs.rounded(decay * s[p] + into * in[p]);
            sum[p] += out * s[p];
          }
        }
        for (std::size_t p = 0; p < in.size(); ++p)
          access::store(y, r, h * lanes + static_cast<std::int64_t>(p), sum[p]);
      }
      runs.store(run, h * states * lanes, state);
    }
}

std::vector<Sample> SsdScan::samples() {
  using samples::normal;
  constexpr ScanSizes kSizes[] = {
      {4, 2, 16, 16}, {3, 1, 17, 5}, {2, 2, 64, 128}, {8, 1, 5, 1}, {2, 1, 33, 24}};
  const SsdScan forms[] = {{},
                           {.softplus = false, .dt_max = 0.5f},
                           {.dt_min = 0.25f, .dt_max = 1.5f},
                           {.dt_min = 0.75f, .dt_max = 0.75f}};
  std::vector<Sample> list;
  std::size_t turn = 0;
  const auto add = [&](const std::string& name, std::vector<Dim> leading, const ScanSizes& size,
                       std::vector<SampleOperand> state) {
    const auto rows = [&](std::int64_t columns) {
      std::vector<Dim> dims = leading;
      dims.push_back(columns);
      return SampleOperand{Shape(std::span<const Dim>(dims), DType::f32), Fill::normal, 1.0f, {}};
    };
    SsdScan op = forms[turn % 4];
    op.heads = static_cast<std::int32_t>(size.heads);
    op.groups = static_cast<std::int32_t>(size.groups);
    std::vector<SampleOperand> operands = {rows(size.heads * size.lanes),
                                           rows(size.heads),
                                           decays({size.heads}, turn),
                                           rows(size.groups * size.states),
                                           rows(size.groups * size.states),
                                           normal({size.heads}),
                                           normal({size.heads})};
    for (SampleOperand& o : state) operands.push_back(std::move(o));
    list.push_back(make_sample(name, op, std::move(operands), size.states));
    ++turn;
  };
  for (const samples::Batch& batch : samples::batches()) {
    const ScanSizes& s = kSizes[turn % 5];
    add(batch.name, {batch.total_rows()}, s,
        {batch.recurrent({s.heads, s.states, s.lanes}), batch.seq_start(), batch.pasts(),
         batch.slot_ids()});
  }
  for (const std::int64_t seq : {1, 9}) {
    const ScanSizes& s = kSizes[turn % 5];
    add(fmt::format("from_zeros_{}", seq), {2, seq}, s, {});
    add(fmt::format("functional_{}", seq), {3, seq}, s, {normal({3, s.heads, s.states, s.lanes})});
  }
  return list;
}

}  // namespace rlx
