// The depthwise causal convolution of recurrent blocks.
#include "ops/access.h"
#include "ops/checks.h"
#include "ops/recurrent.h"
#include "ops/recurrent_state.h"
#include "ops/samples.h"

namespace rlx {

void CausalConv1d::infer(InferContext& c) const {
  const recurrent::Form form = recurrent::infer_form(c, state_at());
  recurrent::infer_x(c, form);
  checks::plain(c, 1, DType::f32, 2);
  const Dim n = c.in(0).dim(-1);
  checks::has_columns(c, 1, n, "the columns of x");
  const auto k = c.in(1).dim(0).constant();
  if (!k || *k < 2) c.fail("w: expected a fixed number of 2 or more rows, found {}", c.in(1).text());
  if (bias) checks::vector(c, 2, DType::f32, n, "the columns of x");
  c.out(c.in(0));
  recurrent::infer_state(c, form, state_at(), {Dim(*k - 1), n});
}

void CausalConv1d::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &w = a.in[1], &y = a.out[0];
  const recurrent::Runs runs(a, state_at());
  const std::int64_t k = w.dims[0], n = access::columns(x);
  const access::Part part = access::part_of(a, n);
  for (std::int64_t lane = part.begin; lane < part.end; ++lane)
    for (std::int64_t b = 0; b < runs.count(); ++b) {
      std::vector<double> values = runs.load(b, lane, k - 1, n);  // the lane's rows, oldest first
      for (std::int64_t r = runs.begin(b); r < runs.end(b); ++r) {
        values.push_back(access::load(x, r, lane));
        double sum = bias ? access::load(a.in[2], 0, lane) : 0.0;
        for (std::int64_t j = 0; j < k; ++j)
          sum += access::load(w, j, lane) * values[values.size() - static_cast<std::size_t>(k - j)];
        access::store(y, r, lane, rlx::apply(act, sum));
      }
      values.erase(values.begin(), values.end() - (k - 1));
      runs.store(b, lane, values, n);
    }
}

std::vector<Sample> CausalConv1d::samples() {
  using samples::normal;
  std::vector<Sample> list;
  constexpr std::int64_t kLanes[] = {17, 16, 5, 64, 33}, kTaps[] = {4, 2, 3, 8};
  std::size_t turn = 0;
  const auto weights = [&](std::int64_t k, std::int64_t n, const CausalConv1d& op) {
    std::vector<SampleOperand> operands = {normal({k, n})};
    if (op.bias) operands.push_back(normal({n}));
    return operands;
  };
  const auto add = [&](const std::string& name, SampleOperand x, std::vector<SampleOperand> state) {
    const std::int64_t n = *x.shape.dim(-1).constant(), k = samples::deal(kTaps, turn);
    const CausalConv1d op{.act = static_cast<Act>(turn % kActNames.size()), .bias = turn % 2 == 0};
    std::vector<SampleOperand> operands = {std::move(x)};
    for (SampleOperand& o : weights(k, n, op)) operands.push_back(std::move(o));
    for (SampleOperand& o : state) operands.push_back(std::move(o));
    list.push_back(make_sample(fmt::format("{}_k{}", name, k), op, std::move(operands), k));
    ++turn;
  };
  for (const samples::Batch& batch : samples::batches()) {
    const std::int64_t n = samples::deal(kLanes, turn), k = samples::deal(kTaps, turn);
    add(batch.name, normal({batch.total_rows(), n}),
        {batch.recurrent({k - 1, n}), batch.seq_start(), batch.pasts(), batch.slot_ids()});
  }
  for (const std::int64_t seq : {1, 2, 9}) {
    const std::int64_t n = samples::deal(kLanes, turn);
    add(fmt::format("from_zeros_{}", seq), normal({2, seq, n}), {});
    const std::int64_t k = samples::deal(kTaps, turn), m = samples::deal(kLanes, turn);
    add(fmt::format("functional_{}", seq), normal({3, seq, m}), {normal({3, k - 1, m})});
  }
  return list;
}

}  // namespace rlx
