// Dispatch of kernels (compiler.md, section 4): every family under every policy, the order of the lists, the report.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "error_text.h"
#include "flow/hir_module.h"
#include "ops/activation.h"
#include "ops/norm.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "runtime/backends.h"
#include "runtime/model_pipeline.h"
#include "runtime/verify.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

fs::path dispatch_models() { return fs::path(RLX_TEST_DIR) / "goldens/models"; }

GoldenResult verify_under(const fs::path& folder, const Device& device, DispatchPolicy policy) {
  GoldenOptions options;
  options.decoder.device = device;
  options.decoder.threads = 1;
  options.decoder.compile.dispatch.policy = policy;
  return verify_golden(folder, options);
}

std::vector<std::string> dispatch_families() {
  std::vector<std::string> names;
  for (const fs::path& folder : golden_folders(dispatch_models())) names.push_back(folder.filename().string());
  return names;
}

class section4_Families : public testing::TestWithParam<std::string> {};

TEST_P(section4_Families, NativeKernels) {
  const fs::path folder = dispatch_models() / GetParam();
  const GoldenResult preferred = verify_under(folder, Device::cpu(), DispatchPolicy::prefer_native);
  EXPECT_TRUE(preferred.ok) << preferred.diff << " " << preferred.why;
  const GoldenResult forced = verify_under(folder, Device::cpu(), DispatchPolicy::force_native);
  EXPECT_TRUE(forced.ok) << forced.diff << " " << forced.why;
  EXPECT_EQ(forced.native, preferred.native) << "nothing is left for a policy to force";
  EXPECT_EQ(forced.common + forced.reference, 0);
}

TEST_P(section4_Families, CommonForms) {
  const GoldenResult r = verify_under(dispatch_models() / GetParam(), Device::cpu(), DispatchPolicy::force_common);
  EXPECT_TRUE(r.ok) << r.diff << " " << r.why;
  EXPECT_EQ(r.native, 0) << "a kernel that runs here is a common form";
  EXPECT_GT(r.common, 0);
}

TEST_P(section4_Families, ReferenceDevice) {
  const GoldenResult r =
      verify_under(dispatch_models() / GetParam(), Device::reference(), DispatchPolicy::prefer_native);
  EXPECT_TRUE(r.ok) << r.diff << " " << r.why;
  EXPECT_EQ(r.native, 0);
  EXPECT_GT(r.reference, 0);
}

INSTANTIATE_TEST_SUITE_P(Goldens, section4_Families, testing::ValuesIn(dispatch_families()),
                         [](const testing::TestParamInfo<std::string>& i) { return i.param; });

// A norm, a product with a packed weight, a view, and a sort, for which there is no kernel.
HirModule dispatch_module() {
  HirModule hir("dispatch");
  const Value x = hir.input("x", Shape({4, 64}, DType::f32));
  const Value y = hir(RmsNorm{.eps = 1e-5f}, x, hir.param("norm", Shape({64}, DType::f32)));
  const Value z = hir.linear_stored(y, hir.param("w", Shape({32, 64}, DType::f32)));
  hir.set_outputs({hir(Sort{}, hir(Reshape{.dims = {2, 64}}, z))});
  return hir;
}

CompileResult compile_under(KernelDispatchConfig dispatch, const Device& device = Device::cpu()) {
  CompileOptions options;
  options.fusion = false;
  options.dispatch = std::move(dispatch);
  return compile(dispatch_module().graph(), options, find_backend(device));
}

const DispatchRow& row_of(const DispatchReport& report, std::string_view op) {
  for (const DispatchRow& r : report.rows)
    if (r.op == op) return r;
  throw std::runtime_error("no row of " + std::string(op));
}

TEST(section4_Dispatch, TheReportCountsByKindAndNamesKernels) {
  const DispatchReport report = compile_under({}).dispatch;
  const DispatchRow &norm = row_of(report, "rms_norm"), &sort = row_of(report, "sort");
  EXPECT_EQ(norm.kind, DispatchKind::native);
  EXPECT_EQ(norm.kernel.rfind("rms_norm", 0), 0u) << norm.kernel;
  EXPECT_EQ(sort.kind, DispatchKind::reference);
  EXPECT_EQ(sort.reason, "cpu has no kernel for sort");
  EXPECT_EQ(row_of(report, "reshape").kind, DispatchKind::view);
  EXPECT_EQ(row_of(report, "pack").kind, DispatchKind::rewritten);
  EXPECT_EQ(row_of(report, "pack").reason, "the weight store packs the param once for all executables");
  EXPECT_EQ(report.count(DispatchKind::reference), 1);
  EXPECT_EQ(report.count(DispatchKind::view), 1);
  EXPECT_EQ(report.count(DispatchKind::rewritten), 1);
  EXPECT_EQ(report.count(DispatchKind::common), 0);
  const std::string text = report.text();
  EXPECT_NE(text.find(norm.kernel), std::string::npos);
  EXPECT_NE(text.find(sort.text()), std::string::npos) << text;
}

TEST(section4_Dispatch, TheJsonFormHasEveryRow) {
  const DispatchReport report = compile_under({}).dispatch;
  const nlohmann::json list = nlohmann::json::parse(report.json());
  ASSERT_EQ(list.size(), report.rows.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i]["node"], report.rows[i].node);
    EXPECT_EQ(list[i]["op"], report.rows[i].op);
    EXPECT_EQ(list[i]["kind"], std::string(name(report.rows[i].kind)));
    EXPECT_EQ(list[i]["kernel"], report.rows[i].kernel);
    EXPECT_EQ(list[i]["reason"], report.rows[i].reason);
  }
}

// force_native wins over force_common, and both over the policy.
TEST(section4_Dispatch, ListsWinOverThePolicy) {
  const auto kind = [](KernelDispatchConfig dispatch) {
    return row_of(compile_under(std::move(dispatch)).dispatch, "rms_norm").kind;
  };
  using enum DispatchPolicy;
  EXPECT_EQ(kind({prefer_native, {}, {}}), DispatchKind::native);
  EXPECT_EQ(kind({prefer_native, {"rms_norm"}, {}}), DispatchKind::common);
  EXPECT_EQ(kind({prefer_native, {"rms_norm"}, {"rms_norm"}}), DispatchKind::native);
  EXPECT_EQ(kind({force_common, {}, {}}), DispatchKind::common);
  EXPECT_EQ(kind({force_common, {}, {"rms_norm"}}), DispatchKind::native);
  EXPECT_EQ(kind({force_common, {"rms_norm"}, {"rms_norm"}}), DispatchKind::native);
  // What a list excepts from ForceNative needs no kernel.
  EXPECT_EQ(kind({force_native, {"rms_norm", "sort"}, {}}), DispatchKind::common);
}

TEST(section4_Dispatch, AMissingNativeKernelIsAnErrorWithTheReport) {
  const std::string report = "sort is unsupported: cpu has no kernel for sort";
  for (const KernelDispatchConfig& dispatch :
       {KernelDispatchConfig{DispatchPolicy::force_native, {}, {}},
        KernelDispatchConfig{DispatchPolicy::prefer_native, {}, {"sort"}},
        KernelDispatchConfig{DispatchPolicy::force_common, {"sort"}, {"sort"}}}) {
    const std::string message = test::error_text(ErrorCode::unsupported, [&] { compile_under(dispatch); });
    EXPECT_NE(message.find("native kernels are forced"), std::string::npos) << message;
    EXPECT_NE(message.find(report), std::string::npos) << message;
  }
}

TEST(section4_Dispatch, TheVariableChoosesThePolicy) {
  const auto with = [](const char* value) {
    ::setenv("RLX_KERNEL_DISPATCH", value, 1);
    const KernelDispatchConfig config = KernelDispatchConfig::from_environment();
    return config.policy;
  };
  EXPECT_EQ(with("common"), DispatchPolicy::force_common);
  EXPECT_EQ(with("native"), DispatchPolicy::force_native);
  EXPECT_EQ(with(""), DispatchPolicy::prefer_native);
  EXPECT_EQ(test::error_text(ErrorCode::usage, [&] { with("fast"); }),
            "RLX_KERNEL_DISPATCH: expected common or native, found \"fast\"");
  ::unsetenv("RLX_KERNEL_DISPATCH");
}

TEST(section4_Dispatch, TheEnvironmentAsksForTheReportOfEveryCompile) {
  Graph g("asked");
  Builder b(g);
  g.set_outputs({{"y", b(RmsNorm{}, b.input("x", Shape({4, 32}, DType::f32)), b.param("w", Shape({32}, DType::f32)))}});
  ::setenv("RLX_DISPATCH_REPORT", "1", 1);
  testing::internal::CaptureStderr();
  const CompileResult result = compile(g, {}, find_backend(Device::cpu()));
  const std::string said = testing::internal::GetCapturedStderr();
  ::unsetenv("RLX_DISPATCH_REPORT");
  const DispatchReport& report = result.dispatch;
  EXPECT_EQ(said, "# dispatch of asked\n" + report.text());
}

}  // namespace
}  // namespace rlx
