// Winograd's convolution against the plain one whose weights it was made of.
#include "ops/winograd_conv.h"

#include "ops/plane_conv.h"
#include "ops/support.h"

namespace rlx {
namespace {

std::vector<float> numbers(std::size_t n, float step) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = std::sin(step * static_cast<float>(i));
  return v;
}

Tensor transformed(const std::vector<float>& w, std::int64_t outputs, std::int64_t channels) {
  return f32({16 * outputs, channels}, winograd_weights(w, outputs));
}

TEST(WinogradConv, WeightsOfOneTapAreThatTapInTheLinesThatSeeIt) {
  // A kernel whose middle tap alone is 1 copies its input: G e = (0, 1/2, -1/2, 0) in both directions.
  std::vector<float> w(std::size_t{16} * 9, 0.0f);
  w[4] = 1;  // output 0
  const std::vector<float> u = winograd_weights(w, 16);
  const float line[4] = {0, 0.5f, -0.5f, 0};
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < 4; ++b) {
      EXPECT_EQ(u[(4 * a + b) * 16], line[a] * line[b]) << a << " " << b;
      EXPECT_EQ(u[(4 * a + b) * 16 + 1], 0) << "an output without weights";
    }
}

TEST(WinogradConv, EqualsThePlainConvolution) {
  constexpr std::int64_t kOut = 16, kIn = 3, kHeight = 5, kWidth = 6;
  const std::vector<float> w = numbers(kOut * 9 * kIn, 0.7f);
  const std::vector<Tensor> beside = {f32({1, kHeight, kWidth, kIn}, numbers(kHeight * kWidth * kIn, 0.3f)),
                                      f32({kOut}, numbers(kOut, 1.1f)),
                                      f32({1, kHeight, kWidth, kOut}, numbers(kHeight * kWidth * kOut, 0.9f))};
  const Tensor got = run_op(WinogradConv{{1, 1}, {1, 1}, Act::relu, true, true},
                            {beside[0], transformed(w, kOut, kIn), beside[1], beside[2]}),
               want = run_op(PlaneConv{{3, 3}, {}, {1, 1}, {1, 1}, Act::relu, true, true},
                             {beside[0], f32({kOut, 9 * kIn}, w), beside[1], beside[2]});
  ASSERT_EQ(got.dims(), want.dims());
  const std::vector<float> a = got.to_floats(), b = want.to_floats();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5f) << i;
}

TEST(WinogradConv, SaysWhatDoesNotFit) {
  const WinogradConv op{{1, 1}, {1, 1}, Act::none, true, false};
  EXPECT_NE(shape_error(op, {"f32[1, 4, 4, 8]", "f32[144, 8]", "f32[9]"}).find("multiple of 256"), std::string::npos);
  EXPECT_NE(shape_error(op, {"f32[1, 4, 4, 8]", "f32[256, 7]", "f32[16]"}).find("channels of x"), std::string::npos);
  EXPECT_NE(shape_error(op, {"f32[1, 4, 4, 8]", "f32[256, 8]", "f32[17]"}).find("outputs of u"), std::string::npos);
  EXPECT_NE(shape_error(WinogradConv{}, {"f32[1, 2, 4, 8]", "f32[256, 8]"}).find("spans 3"), std::string::npos);
}

}  // namespace
}  // namespace rlx
