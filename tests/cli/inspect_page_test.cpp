// The page and the picture of a model: what is in them, that names cannot break out of them, and that a browser draws,
// folds and finds.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/process.h"

namespace rlx::cli {
namespace {

using nlohmann::json;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::string page(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "inspect");
  arguments.insert(arguments.end(), {"--format", "html"});
  const Outcome r = rlx(arguments);
  EXPECT_EQ(r.code, 0) << r.err;
  return r.out;
}

json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(open) + open.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

const json& graph_of(const json& data, const std::string& stage) {
  const auto at = std::find_if(data["graphs"].begin(), data["graphs"].end(),
                               [&](const json& g) { return g["stage"] == stage; });
  return *at;
}

const char* kSmall =
    "graph \"small\" stage=hir\n"
    "  %0 = input \"x\" : f32[rows, 4] @\"input\"\n"
    "  %1 = param \"w\" : f32[3, 4] @\"layers.0.mlp\"\n"
    "  %2 = linear(%0, %1) : f32[rows, 3] @\"layers.0.mlp\"\n"
    "  %3 = activation(%2) : f32[rows, 3] @\"layers.0.mlp\"\n"
    "return \"y\" %3\n";

TEST(InspectPage, HoldsEveryNodeOfEveryStage) {
  const std::string model = golden_model("llama");
  const json data = data_of(page({model}));
  for (const char* stage : {"hir", "mir"}) {
    const json nodes = json::parse(rlx({"inspect", model, "--stage", stage, "--json"}).out)["nodes"];
    const json drawn = graph_of(data, stage)["nodes"];
    ASSERT_EQ(drawn.size(), nodes.size()) << stage;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      EXPECT_EQ(drawn[i]["op"], nodes[i]["op"]);
      EXPECT_EQ(drawn[i]["in"], nodes[i]["inputs"]);
      EXPECT_EQ(drawn[i]["origin"], nodes[i]["origin"]);
    }
  }
  const json program = json::parse(rlx({"inspect", model, "--stage", "lir", "--json"}).out);
  EXPECT_EQ(data["calls"].size(), program["calls"].size());
  std::size_t call = 0;
  for (const json& n : json(graph_of(data, "lir")["nodes"])) {
    if (!n.contains("call")) continue;
    EXPECT_EQ(n["call"], call);
    EXPECT_EQ(n["kernel"], program["calls"][call]["kernel"]);
    for (const json& in : n["in"]) EXPECT_LT(in[0].get<std::size_t>(), graph_of(data, "lir")["nodes"].size());
    ++call;
  }
  EXPECT_EQ(call, program["calls"].size());
  EXPECT_EQ(data["variants"][0]["arena"], program["arena_bytes"]);
  EXPECT_EQ(data["dispatch"].dump(), json::parse(rlx({"inspect", model, "--dispatch", "--json"}).out).dump());
}

TEST(InspectPage, TheArenaIsWhatThePlanSays) {
  const json data = data_of(page({golden_model("llama"), "--symbols", "rows=16,out_rows=1"}));
  const json& v = data["variants"][0];
  const std::size_t calls = data["calls"].size();
  std::vector<std::int64_t> live(calls, 0);
  for (const json& b : v["buffers"]) {
    EXPECT_LE(b[0].get<std::int64_t>() + b[1].get<std::int64_t>(), v["arena"].get<std::int64_t>());
    for (auto c = b[2].get<std::size_t>(); c < calls && c <= b[3].get<std::size_t>(); ++c)
      live[c] += (b[1].get<std::int64_t>() + 63) / 64 * 64;
    for (const json& other : v["buffers"]) {
      const bool together = b[2] <= other[3] && other[2] <= b[3];
      const bool apart = b[0].get<std::int64_t>() + b[1].get<std::int64_t>() <= other[0].get<std::int64_t>() ||
                         other[0].get<std::int64_t>() + other[1].get<std::int64_t>() <= b[0].get<std::int64_t>();
      EXPECT_TRUE(b == other || !together || apart) << b << " and " << other;
    }
  }
  EXPECT_EQ(v["live"], json(live));
  EXPECT_EQ(v["bound"], *std::max_element(live.begin(), live.end()));
}

TEST(InspectPage, TwoVariantsStandSideBySide) {
  const json data = data_of(page({golden_model("llama"), "--symbols", "rows=16,out_rows=1", "--symbols", "rows=1"}));
  ASSERT_EQ(data["variants"].size(), 2u);
  EXPECT_EQ(data["variants"][0]["sizes"]["rows"], 16);
  EXPECT_EQ(data["variants"][1]["sizes"]["rows"], 1);
  EXPECT_GT(data["variants"][0]["arena"], data["variants"][1]["arena"]);
  const Outcome text =
      rlx({"inspect", golden_model("llama"), "--stage", "mir", "--symbols", "rows=1", "--symbols", "rows=2"});
  EXPECT_EQ(text.code, 2);
  EXPECT_NE(text.err.find("twice with --format html, found 2 times"), std::string::npos) << text.err;
}

TEST(InspectPage, AsksNothingOfTheNetwork) {
  std::string text = page({golden_model("llama")});
  const std::string names = "http://www.w3.org/2000/svg";  // a name, never fetched
  for (std::size_t at = text.find(names); at != std::string::npos; at = text.find(names)) text.erase(at, names.size());
  for (const char* part : {"http:", "https:", "//www", " src=", " href=", "@import", "url(", "fetch(", "XMLHttp",
                           "innerHTML", "document.write", "eval("})
    EXPECT_EQ(text.find(part), std::string::npos) << part;
  EXPECT_NE(text.find("default-src 'none'"), std::string::npos);
}

TEST(InspectPage, NamesAreNoMarkup) {
  const Scratch scratch;
  const std::string bad = "</script><img src=x onerror=alert(1)><!--";
  std::string text = kSmall;
  for (const std::string& name : {std::string("\"small\""), std::string("\"w\""), std::string("\"y\"")})
    text.replace(text.find(name), name.size(), "\"" + bad + name.substr(1));
  text.replace(text.find("@\"layers.0.mlp\""), 15, "@\"" + bad + "\\xff\"");
  const std::string file = scratch.file("bad.rlx", text);
  const std::string html = page({file});
  EXPECT_EQ(count(html, "</script>"), 2u);
  EXPECT_EQ(count(html, "<img"), 0u);
  EXPECT_EQ(count(html, "<!--"), 0u);
  const json data = data_of(html);
  EXPECT_EQ(data["name"], bad + "small");
  EXPECT_EQ(graph_of(data, "hir")["nodes"][1]["name"], bad + "w");
  const Outcome svg = rlx({"inspect", file, "--format", "svg"});
  ASSERT_EQ(svg.code, 0) << svg.err;
  EXPECT_EQ(count(svg.out, "<img"), 0u);
  EXPECT_NE(svg.out.find("&lt;img"), std::string::npos);
}

TEST(InspectPage, ReadsIrTextAndItsReports) {
  const Scratch scratch;
  const std::string file = scratch.file("small.rlx", kSmall);
  EXPECT_EQ(json::parse(rlx({"inspect", file, "--json"}).out)["ops"]["linear"], 1);
  const json data = data_of(page({file, "--symbols", "rows=5"}));
  // 5 rows of a 3 x 4 product: 2 * 5 * 12 operations; 80 bytes in, 48 of weights, 60 out.
  const json mir = graph_of(data, "mir");
  for (std::size_t i = 0; i < mir["nodes"].size(); ++i)
    if (mir["nodes"][i]["op"] == "linear") {
      EXPECT_EQ(data["variants"][0]["costs"][1][i].dump(), "[188,48,120]");
    }
  EXPECT_EQ(json::parse(rlx({"inspect", file, "--fusion", "--json"}).out)["nodes_before"], 4);
  EXPECT_NE(rlx({"inspect", file, "--fusion"}).out.find("4 nodes became"), std::string::npos);
  const Outcome both = rlx({"inspect", file, "--fusion", "--format", "svg"});
  EXPECT_EQ(both.code, 2);
  EXPECT_NE(both.err.find("--fusion: expected --format text or json, found svg"), std::string::npos) << both.err;
}

TEST(InspectPage, ThePictureShowsOneLayer) {
  // Fused products, whatever setting the tests run under.
  const Outcome r =
      rlx({"inspect", golden_model("llama"), "--format", "svg", "--group", "layers.0", "--symbols", "rows=7"}, "",
          {"-u", "RLX_KERNEL_DISPATCH"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.starts_with("<svg xmlns="));
  EXPECT_NE(r.out.find(">fused_linear<"), std::string::npos);
  EXPECT_NE(r.out.find(">= f32[7, 112]<"), std::string::npos);
  EXPECT_NE(r.out.find(">model.layers.0.mlp.gate_proj.weight: f16[112, 64]@p16<"), std::string::npos);
  EXPECT_NE(r.out.find(">to layers.1<"), std::string::npos);
  EXPECT_EQ(r.out.find("layers.1.mlp"), std::string::npos);
  EXPECT_EQ(count(r.out, "<rect"), count(r.out, "</rect>") + count(r.out, "/>\n") - count(r.out, "<path"));
  const Outcome unknown = rlx({"inspect", golden_model("llama"), "--format", "svg", "--group", "layer.0"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("did you mean \"layers.0\""), std::string::npos) << unknown.err;
}

// ---- in a browser ----

std::string browser() {
  if (const char* named = std::getenv("RLX_BROWSER")) return named;
  for (const char* name : {"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}) {
    std::string path = run_words({"sh", "-c", std::string("command -v ") + name}).out;
    while (!path.empty() && std::isspace(static_cast<unsigned char>(path.back())) != 0) path.pop_back();
    if (!path.empty()) return path;
  }
  return "";
}

/// The document after its scripts ran.
std::string shown(const std::string& html, const std::string& hash) {
  const Scratch scratch;
  const std::string file = scratch.file("page.html", html), home = (scratch / "home").string();
  const Outcome r = run_words({"timeout", "120", browser(), "--headless", "--no-sandbox", "--disable-gpu",
                               "--no-first-run", "--disable-dev-shm-usage", "--disable-extensions",
                               "--user-data-dir=" + home, "--dump-dom", "file://" + file + "#" + hash});
  EXPECT_EQ(r.code, 0) << r.err;
  return r.out;
}

TEST(InspectPage, BrowserDrawsCollapsesAndFinds) {
  if (browser().empty()) GTEST_SKIP() << "no browser: install chromium, or name one in RLX_BROWSER";
  const std::string html = page({golden_model("llama"), "--symbols", "rows=16,out_rows=1", "--symbols", "rows=1"});
  const json data = data_of(html);
  const json mir = graph_of(data, "mir")["nodes"];
  const auto drawn_nodes = static_cast<std::size_t>(
      std::count_if(mir.begin(), mir.end(), [](const json& n) { return !n.contains("source"); }));

  // Two clicks on the head of a layer fold and unfold it.
  const std::string open = shown(html, "stage=mir&open=*&toggle=layers.0,layers.0");
  EXPECT_NE(open.find("data-ready=\"yes\""), std::string::npos);
  EXPECT_EQ(count(open, "class=\"node\""), 2 * drawn_nodes) << "each node once per variant";
  EXPECT_GT(count(open, "class=\"wire\""), drawn_nodes);
  EXPECT_EQ(count(open, "class=\"buffer\""),
            data["variants"][0]["buffers"].size() + data["variants"][1]["buffers"].size());
  for (const char* part : {"id=\"phases\"", "id=\"arena\"", "id=\"cost\"", "id=\"dispatch\"", "id=\"fusion\""})
    EXPECT_NE(open.find(part), std::string::npos) << part;

  // One click leaves it folded.
  const std::string folded = shown(html, "stage=mir&open=*&toggle=layers.0");
  EXPECT_NE(folded.find("data-path=\"layers.0\" data-closed=\"true\""), std::string::npos);
  EXPECT_LT(count(folded, "class=\"node\""), 2 * drawn_nodes);

  // A weight of a folded layer is found: the layer opens and its reader is marked.
  const std::string found = shown(html, "stage=lir&close=layers.0&find=model.layers.0.mlp.down_proj.weight");
  EXPECT_NE(found.find("data-found=\"1\""), std::string::npos);
  EXPECT_NE(found.find("data-path=\"layers.0\" data-closed=\"false\""), std::string::npos);
  EXPECT_EQ(count(found, "class=\"node hit\""), 2u);
  EXPECT_NE(found.find("<h3 class=\"mono\">model.layers.0.mlp.down_proj.weight</h3>"), std::string::npos)
      << "no details";
}

}  // namespace
}  // namespace rlx::cli
