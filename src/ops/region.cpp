#include "ops/region.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "ir/graph.h"
#include "ops/arithmetic.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/reduction.h"
#include "ops/samples.h"

namespace rlx {
namespace {

template <typename Op>
std::optional<Op> region_as(const OpDef& op, const AttrBlob& attrs) {
  if (op.id != op_id(Op::name)) return std::nullopt;
  return from_blob<Op>(attrs);
}

// Reads a whole row before it gives anything of it.
bool reads_rows(const RegionInstr& i) { return i.op->has(Trait::reduction); }
bool is_reduce(const RegionInstr& i) { return i.op->id == op_id(Reduce::name); }

std::string attrs_text(const RegionInstr& i) {
  std::string text = i.op->print(i.attrs);  // " eps=1e-06 bias=true"
  for (char& c : text)
    if (c == ' ') c = ':';
  return text;
}

// ---- reading of the text ----

class RegionReader {
 public:
  explicit RegionReader(std::string_view text) : text_(text) {}

  std::optional<RegionProgram> read() {
    if (!take('{')) return std::nullopt;
    RegionProgram p;
    do {
      RegionInput in;
      if (!dtype(in.dtype)) return std::nullopt;
      in.column = take(".row");
      p.inputs.push_back(in);
    } while (take(','));
    while (take(';'))
      if (!instruction(p)) return std::nullopt;
    if (!take("->")) return std::nullopt;
    do p.outputs.push_back(number());
    while (take(','));
    if (!take('}') || at_ != text_.size()) return std::nullopt;
    return p;
  }

 private:
  bool take(char c) {
    const bool found = at_ < text_.size() && text_[at_] == c;
    at_ += found;
    return found;
  }
  bool take(std::string_view word) {
    const bool found = text_.substr(at_, word.size()) == word;
    if (found) at_ += word.size();
    return found;
  }
  bool dtype(DType& d) {
    for (const DType each : {DType::f32, DType::f16, DType::bf16, DType::boolean})
      if (take(name(each))) {
        d = each;
        return true;
      }
    return false;
  }
  int number() {
    int n = -1;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
    if (error != std::errc{}) return -1;
    at_ = static_cast<std::size_t>(end - text_.data());
    return n;
  }
  // Up to a character of `stop`; "->" ends a value too.
  std::string_view until(std::string_view stop) {
    const std::size_t from = at_;
    while (at_ < text_.size() && stop.find(text_[at_]) == std::string_view::npos && text_.substr(at_, 2) != "->") ++at_;
    return text_.substr(from, at_ - from);
  }
  bool instruction(RegionProgram& p) {
    RegionInstr i;
    i.op = find_op(until("("));
    if (i.op == nullptr || i.op->has(Trait::source) || !take('(')) return false;
    i.attrs = i.op->defaults();
    do i.in.push_back(number());
    while (take(','));
    if (!take(')')) return false;
    while (take(':')) {
      const std::string_view key = until("=");
      if (!take('=') || !i.op->set(i.attrs, key, until(":;}"))) return false;
    }
    p.code.push_back(std::move(i));
    return p.code.size() <= kRegionInstructions;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// ---- the table ----

struct RegionEntry {
  RegionEntry(const RegionProgram& made_of, TileProgram tiles)
      : program(made_of), instructions(std::move(tiles.instructions)), code(tiles.code) {
    code.code = instructions.data();
  }
  RegionEntry(const RegionEntry&) = delete;
  // What the table holds for it, with its text.
  std::size_t bytes(std::size_t text) const {
    std::size_t sum = sizeof *this + text + instructions.size() * sizeof(TileInstr);
    sum += program.inputs.size() * sizeof(RegionInput) + program.outputs.size() * sizeof(int);
    for (const RegionInstr& i : program.code) sum += sizeof i + i.in.size() * sizeof(int);
    return sum;
  }

  RegionProgram program;
  std::vector<TileInstr> instructions;
  RegionCode code;
};
// Handles are read by kernels without a lock; entries are never freed.
constexpr std::size_t kMostRegions = 1 << 16, kMostRegionBytes = std::size_t{64} << 20;
struct RegionTable {
  std::mutex mutex;
  std::size_t bytes = 0;
  std::map<std::string, std::int32_t, std::less<>> by_text;
  std::unique_ptr<std::atomic<const RegionEntry*>[]> entries{new std::atomic<const RegionEntry*>[kMostRegions] {}};
};

// Of an op that may stand in a region. Where the operands' shapes are unknown, infer() cannot count them.
std::size_t region_operands(const RegionInstr& i) {
  if (const auto norm = region_as<LayerNorm>(*i.op, i.attrs)) return norm->bias ? 3 : 2;
  return i.op->operands.size();
}

void check_program(const RegionProgram& p) {
  const auto bad = [](const std::string& what) { fail(ErrorCode::invalid_argument, "region: {}", what); };
  if (p.inputs.empty() || p.inputs.size() > kRegionInputs)
    fail(ErrorCode::limit, "region: {} inputs: expected 1 to {}", p.inputs.size(), kRegionInputs);
  if (p.outputs.empty() || p.outputs.size() > kRegionOutputs)
    fail(ErrorCode::limit, "region: {} outputs: expected 1 to {}", p.outputs.size(), kRegionOutputs);
  if (p.code.size() > kRegionInstructions)
    fail(ErrorCode::limit, "region: {} instructions: expected at most {}", p.code.size(), kRegionInstructions);
  std::vector<bool> column, dropped(p.inputs.size(), false);
  bool any_row = false;
  for (const RegionInput& i : p.inputs) column.push_back(i.column), any_row |= !i.column;
  if (!any_row) bad("expected an input that is no column");
  for (const RegionInstr& i : p.code) {
    if (!region_member(*i.op, i.attrs)) bad(fmt::format("{}{} may not stand in one", i.op->name, i.op->print(i.attrs)));
    if (const std::size_t expected = region_operands(i); i.in.size() != expected)
      bad(fmt::format("{}: expected {} operand{}, found {}", i.op->name, expected, expected == 1 ? "" : "s",
                      i.in.size()));
    bool all_columns = true;
    for (int v : i.in) {
      if (v < 0 || static_cast<std::size_t>(v) >= column.size())
        bad(fmt::format("{} reads value {} of {}", i.op->name, v, column.size()));
      if (dropped[static_cast<std::size_t>(v)]) bad(fmt::format("{} reads a result without its last axis", i.op->name));
      all_columns &= column[static_cast<std::size_t>(v)];
    }
    if (reads_rows(i) && column[static_cast<std::size_t>(i.in[0])])
      bad(fmt::format("{} of a column", i.op->name));
    column.push_back(is_reduce(i) || (all_columns && !reads_rows(i)));
    dropped.push_back(is_reduce(i) && !from_blob<Reduce>(i.attrs).keep_dims);
  }
  for (int v : p.outputs)
    if (v < 0 || static_cast<std::size_t>(v) >= column.size())
      bad(fmt::format("output {} of {} values", v, column.size()));
}

RegionTable& regions() {
  static RegionTable& table = *[] {
    auto* t = new RegionTable;  // never destroyed: kernels of detached workers may still read it
    RegionProgram same{{RegionInput{}}, {}, {0}};
    t->by_text.emplace(same.text(), 0);
    t->entries[0] = new RegionEntry(same, make_region_code(same));
    return t;
  }();
  return table;
}

const RegionEntry& region_entry(RegionId id) { return *regions().entries[static_cast<std::size_t>(id.value)]; }

}  // namespace

std::string RegionProgram::text() const {
  std::string out = "{";
  for (std::size_t k = 0; k < inputs.size(); ++k)
    out += fmt::format("{}{}{}", k > 0 ? "," : "", name(inputs[k].dtype), inputs[k].column ? ".row" : "");
  for (const RegionInstr& i : code) out += fmt::format(";{}({}){}", i.op->name, fmt::join(i.in, ","), attrs_text(i));
  return out + fmt::format("->{}}}", fmt::join(outputs, ","));
}

bool region_member(const OpDef& op, const AttrBlob& attrs) {
  // By name, not by trait: the tile program must know how to compute each.
  constexpr std::string_view kPointwise[] = {Add::name,     Sub::name,     Mul::name,     Div::name,  Pow::name,
                                             Maximum::name, Minimum::name, Compare::name, Where::name, Clamp::name,
                                             Unary::name,   Scale::name,   Softcap::name, Cast::name, Activation::name};
  if (std::find(std::begin(kPointwise), std::end(kPointwise), op.name) != std::end(kPointwise)) return true;
  if (const auto norm = region_as<RmsNorm>(op, attrs)) return norm->group == 0;
  if (const auto softmax = region_as<Softmax>(op, attrs)) return softmax->axis == -1;
  if (const auto softmax = region_as<LogSoftmax>(op, attrs)) return softmax->axis == -1;
  if (const auto reduce = region_as<Reduce>(op, attrs)) return reduce->axis == -1;
  return op.id == op_id(LayerNorm::name);
}

DType region_dtype(const RegionInstr& instr, const std::vector<DType>& values) {
  const auto of = [&](std::size_t k) { return values[static_cast<std::size_t>(instr.in[k])]; };
  if (const auto cast = region_as<Cast>(*instr.op, instr.attrs)) return cast->to;
  if (instr.op->id == op_id(Compare::name)) return DType::boolean;
  return instr.op->id == op_id(Where::name) && instr.in.size() == 3 ? of(1) : of(0);
}

RegionId intern_region(const RegionProgram& program) {
  check_program(program);
  const std::string text = program.text();
  RegionTable& table = regions();
  const std::lock_guard lock(table.mutex);
  if (const auto it = table.by_text.find(text); it != table.by_text.end()) return {it->second};
  const std::size_t next = table.by_text.size();
  if (next >= kMostRegions) fail(ErrorCode::limit, "region: more than {} programs in one process", kMostRegions);
  auto entry = std::make_unique<RegionEntry>(program, make_region_code(program));
  const std::size_t bytes = entry->bytes(text.size());
  if (bytes > kMostRegionBytes - table.bytes)
    fail(ErrorCode::limit, "region: programs of more than {} MiB in one process", kMostRegionBytes >> 20);
  table.by_text.emplace(text, static_cast<std::int32_t>(next));
  table.entries[next] = entry.release();
  table.bytes += bytes;
  return {static_cast<std::int32_t>(next)};
}

const RegionProgram& region_program(RegionId id) { return region_entry(id).program; }
const RegionCode& region_code(RegionId id) { return region_entry(id).code; }

std::string print_value(RegionId v) { return region_program(v).text(); }

bool parse_value(std::string_view text, RegionId& v) {
  const auto program = RegionReader(text).read();
  if (!program) return false;
  try {
    v = intern_region(*program);
  } catch (const Error& e) {  // of the text, not of a caller
    fail(e.code() == ErrorCode::limit ? ErrorCode::limit : ErrorCode::format, "{}", e.what());
  }
  return true;
}

namespace {

// What a value of a region is while its shapes are inferred.
struct RegionValue {
  Shape shape;
  bool column = false;
};

void check_inputs(InferContext& c, const RegionProgram& p, std::vector<RegionValue>& values) {
  checks::operand_count(c, static_cast<int>(p.inputs.size()));
  for (std::size_t k = 0; k < p.inputs.size(); ++k) {
    const int i = static_cast<int>(k);
    checks::array(c, i, {p.inputs[k].dtype});
    const Shape& s = c.in(i);
    if (p.inputs[k].column && s.rank() > 0 && !(s.dim(-1) == Dim(1)))
      c.fail("input {}: expected one value per row, found {}", i, checks::dims_text(s));
    values.push_back({s, p.inputs[k].column});
  }
}

RegionValue infer_instr(InferContext& c, const RegionInstr& i, const std::vector<RegionValue>& values) {
  std::vector<Shape> in;
  bool column = true;
  for (int v : i.in) {
    in.push_back(values[static_cast<std::size_t>(v)].shape);
    column &= values[static_cast<std::size_t>(v)].column;
  }
  InferContext inner(*i.op, in);
  i.op->infer(i.attrs, inner);
  for (DimCheck& check : inner.checks()) c.checks().push_back(std::move(check));
  const Shape& s = inner.results()[0];
  for (const DType d : {DType::f32, DType::f16, DType::bf16, DType::boolean})
    if (s.dtype == d) return {s, is_reduce(i) || (column && !reads_rows(i))};
  c.fail("{} gives {}", i.op->name, name(s.dtype));
}

// A result has the region's shape, or of a column one value per row.
void check_result(InferContext& c, const RegionProgram& p, const std::vector<RegionValue>& values, int v,
                  const Shape& domain) {
  const RegionValue& result = values[static_cast<std::size_t>(v)];
  std::vector<Dim> want(domain.dims().begin(), domain.dims().end());
  const int made = v - static_cast<int>(p.inputs.size());
  if (result.column && !want.empty()) want.back() = 1;
  if (made >= 0)
    if (const RegionInstr& i = p.code[static_cast<std::size_t>(made)];
        is_reduce(i) && !from_blob<Reduce>(i.attrs).keep_dims)
      want.pop_back();
  const auto wrong = [&] {
    return fmt::format("a result {} in a region over {}", checks::dims_text(result.shape), checks::dims_text(domain));
  };
  if (result.shape.rank() != static_cast<int>(want.size())) c.fail_text(wrong());
  for (int axis = 0; axis < result.shape.rank(); ++axis)
    checks::same(c, result.shape.dim(axis), want[static_cast<std::size_t>(axis)], wrong);
  c.out(result.shape);
}

}  // namespace

void Region::infer(InferContext& c) const {
  const RegionProgram& p = region_program(program);
  std::vector<RegionValue> values;
  check_inputs(c, p, values);
  for (const RegionInstr& i : p.code) values.push_back(infer_instr(c, i, values));
  Shape domain;
  bool first = true;
  for (const RegionValue& v : values) {
    if (v.column) continue;
    domain = first ? v.shape : checks::broadcast(c, {domain, "the region"}, {v.shape, "a value"});
    first = false;
  }
  // A reduction of a row that repeats would count its values more than once.
  for (const RegionInstr& i : p.code) {
    const Shape& row = values[static_cast<std::size_t>(i.in[0])].shape;
    if (!reads_rows(i)) continue;
    checks::same(c, row.dim(-1), domain.dim(-1), [&] {
      return fmt::format("{} of {} in a region of rows of {}", i.op->name, checks::dims_text(row),
                         domain.dim(-1).text());
    });
  }
  for (int v : p.outputs) check_result(c, p, values, v, domain);
}

namespace {

// Body takes its results as a list in braces.
template <std::size_t... I>
void give(Body& b, const std::vector<Value>& r, std::index_sequence<I...>) {
  b.ret({r[I]...});
}
template <std::size_t Most>
void give_all(Body& b, const std::vector<Value>& r) {
  if (r.size() == Most)
    give(b, r, std::make_index_sequence<Most>{});
  else if constexpr (Most > 1)
    give_all<Most - 1>(b, r);
}

}  // namespace

void Region::decompose(Body& b) const {
  const RegionProgram& p = region_program(program);
  std::vector<Value> values;
  for (std::size_t k = 0; k < p.inputs.size(); ++k) values.push_back(b.in(static_cast<int>(k)));
  for (const RegionInstr& i : p.code) {
    std::vector<Value> in;
    for (int v : i.in) in.push_back(values[static_cast<std::size_t>(v)]);
    values.push_back(b.b.graph().add(*i.op, i.attrs, std::move(in), b.b.origin()));
  }
  std::vector<Value> results;
  for (int v : p.outputs) results.push_back(values[static_cast<std::size_t>(v)]);
  give_all<kRegionOutputs>(b, results);
}

namespace {

Region region_of(std::string_view text) {
  Region r;
  RLX_CHECK(parse_value(text, r.program), std::string(text));
  return r;
}

}  // namespace

std::vector<Sample> Region::samples() {
  using samples::normal;
  std::vector<Sample> list;
  const auto add = [&](std::string_view label, std::string_view text, std::vector<SampleOperand> operands,
                       std::int64_t terms = 1) {
    list.push_back(make_sample(std::string(label), region_of(text), std::move(operands), terms));
  };
  const DType h = DType::f16, bf = DType::bf16;
  add("chain", "{f32,f32;add(0,1);unary(2):fn=tanh;scale(3):factor=0.5->4}", {normal({5, 600}), normal({600})});
  add("mul_add", "{f32,f32,f32;mul(0,1);add(2,3)->4}", {normal({17, 33}), normal({33}), normal({17, 33})});
  add("column", "{f32,f32.row;mul(0,1);activation(2):act=gelu;mul(0,3)->3,4}", {normal({8, 112}), normal({8, 1})});
  add("broadcast", "{f32,f32;sub(0,1);activation(2);mul(3,0)->4}", {normal({2, 3, 40}), normal({3, 1})});
  add("outer", "{f32,f32;add(0,1);mul(2,2)->3}", {normal({5, 1}), normal({1, 17})});
  add("softmax", "{f32,f32;add(0,1);softmax(2)->3}", {normal({7, 1000}), normal({1000})}, 1000);
  add("softmax_f16", "{f16;softmax(0)->1}", {normal({3, 100}, h)}, 100);
  add("log_softmax", "{f32;log_softmax(0);unary(1)->1,2}", {normal({4, 513})}, 513);
  add("residual_norm", "{f32,f32,f32;add(0,1);rms_norm(3,2):eps=0.001:weight_offset=1->3,4}",
      {normal({5, 576}), normal({5, 576}), normal({576})}, 576);
  add("residual_layer_norm", "{f32,f32,f32,f32;add(0,1);layer_norm(4,2,3):eps=0.1->4,5}",
      {normal({3, 768}), normal({3, 768}), normal({768}), normal({768})}, 768);
  add("layer_norm", "{f32,f32;layer_norm(0,1):bias=false->2}", {normal({65, 48}), normal({48})}, 48);
  add("standardise",
      "{f32;reduce(0):kind=mean:keep_dims=true;sub(0,1);mul(2,2);reduce(3):keep_dims=true;unary(4):fn=rsqrt;mul(2,5)"
      "->6,4}",
      {normal({9, 1030})}, 1030);
  add("sums", "{f32,f32;mul(0,1);reduce(2);reduce(2):kind=max;reduce(0):kind=min:keep_dims=true->3,4,5}",
      {normal({2, 5, 77}), normal({2, 5, 77})}, 77);
  add("prod", "{f32;clamp(0):low=0.9:high=1.1;reduce(1):kind=prod->2}", {normal({6, 40})}, 40);
  add("where", "{f32,f32;compare(0,1):relation=gt;where(2,0,1);minimum(3,0);maximum(1,3)->4,5,2}",
      {normal({5, 100}), normal({100})});
  add("halves", "{f16,f16;sub(0,1);maximum(2,0);cast(3)->4,2}", {normal({5, 48}, h), normal({48}, h)});
  add("bf16", "{f32,bf16;cast(1);add(0,2);cast(3):to=bf16->4}", {normal({5, 48}), normal({5, 48}, bf)});
  add("functions",
      "{f32;unary(0):fn=abs;unary(1):fn=sqrt;unary(2):fn=sigmoid;unary(3):fn=log;unary(4):fn=softplus;unary(5):fn=sin"
      ";softcap(6):cap=0.5;unary(7):fn=erf;unary(0):fn=sign;unary(0):fn=floor;unary(0):fn=ceil;unary(0):fn=round"
      "->8,9,10,11,12}",
      {normal({3, 530}, DType::f32, 3.0f)});
  add("powers", "{f32,f32;unary(0):fn=exp;pow(2,1);div(3,2);unary(4):fn=reciprocal;unary(5):fn=cos->6}",
      {normal({5, 31}), normal({5, 31})});
  add("one_value", "{f32,f32;add(0,1);unary(2):fn=exp->3}", {normal({1}), normal({1})});
  add("no_rows_zero", "{f32,f32;add(0,1);reduce(2)->2,3}", {normal({0, 16}), normal({16})});
  return list;
}

}  // namespace rlx
