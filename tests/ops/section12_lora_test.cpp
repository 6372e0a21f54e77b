// A product with a low-rank adapter is the product plus two more.
#include "ops/elementwise.h"
#include "ops/lora.h"
#include "ops/materialize.h"
#include "ops/matmul.h"
#include "ops/samples.h"
#include "ops/support.h"

namespace rlx {
namespace {

Tensor adapted(const std::vector<Tensor>& v, float scale) {
  const Tensor base = run_op(Linear{}, {v[0], v[1]});
  const Tensor low = run_op(Linear{}, {v[0], v[2]});
  return run_op(Add{}, {base, run_op(Scale{scale}, {run_op(Linear{}, {low, v[3]})})});
}

std::vector<double> doubles(const std::vector<float>& v) { return {v.begin(), v.end()}; }

TEST(section12_Lora, AddsTheScaledLowRankProduct) {
  const Sample s = make_sample("", LoraLinear{.scale = 0.5f},
                               {samples::normal({5, 32}), samples::normal({17, 32}),
                                samples::normal({4, 32}), samples::normal({17, 4})});
  const std::vector<Tensor> v = materialize(s, 2);
  const Tensor y = run_sample(*find_op("lora_linear"), s, v)[0];
  expect_near(y, doubles(adapted(v, 0.5f).to_floats()), 1e-5);
}

TEST(section12_Lora, EachRowHasItsOwnAdapterOrNone) {
  const std::vector<std::int32_t> ids = {1, -1, 0};
  const Sample s = make_sample("", LoraLinear{.scale = 2.0f, .per_row = true},
                               {samples::normal({3, 32}), samples::normal({6, 32}),
                                samples::normal({2, 4, 32}), samples::normal({2, 6, 4}),
                                samples::given(ids)});
  const std::vector<Tensor> v = materialize(s, 2);
  const std::vector<float> y = run_sample(*find_op("lora_linear"), s, v)[0].to_floats(),
                           x = v[0].to_floats(), a = v[2].to_floats(), b = v[3].to_floats();
  for (std::int64_t r = 0; r < 3; ++r) {
    const Tensor row = f32({1, 32}, {x.begin() + r * 32, x.begin() + (r + 1) * 32});
    const std::int64_t id = ids[static_cast<std::size_t>(r)];
    const Tensor want =
        id < 0 ? run_op(Linear{}, {row, v[1]})
               : adapted({row, v[1], f32({4, 32}, {a.begin() + id * 128, a.begin() + (id + 1) * 128}),
                          f32({6, 4}, {b.begin() + id * 24, b.begin() + (id + 1) * 24})},
                         2.0f);
    expect_near(f32({6}, {y.begin() + r * 6, y.begin() + (r + 1) * 6}), doubles(want.to_floats()), 1e-5);
  }
}

TEST(section12_Lora, TheRanksMustAgree) {
  EXPECT_EQ(shape_error(LoraLinear{}, {"f32[5, 64]", "f32[16, 64]", "f32[8, 64]", "f32[16, 4]"}),
            "lora_linear: b [16, 4]: expected the rank of a = 8 columns, found 4");
}

}  // namespace
}  // namespace rlx
