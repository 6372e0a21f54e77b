#include "device/program_io.h"

#include <algorithm>
#include <map>
#include <set>

#include "device/program_check.h"
#include "tensor/tensor.h"

namespace rlx {
namespace {

constexpr std::size_t kLongestSize = 512;  // bytes of the text of a size or shape
constexpr int kMostDigits = 15;            // of a number in it
constexpr std::int64_t kMostUnits = std::int64_t{1} << 40;

void write_indices(ByteWriter& out, const std::vector<std::int32_t>& list) {
  out.number(static_cast<std::uint32_t>(list.size()));
  for (const std::int32_t i : list) out.number(i);
}

std::vector<std::int32_t> read_indices(ByteCursor& in, std::string_view field, std::size_t end) {
  std::vector<std::int32_t> list(in.count(field, 4));
  for (std::int32_t& i : list) i = in.index(field, end);
  return list;
}

// Parsing multiplies polynomials out: small numbers and exponents bound what a text can cost.
void check_size_text(const ByteCursor& in, std::string_view field, std::string_view text) {
  int digits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    digits = text[i] >= '0' && text[i] <= '9' ? digits + 1 : 0;
    if (digits > kMostDigits) in.fail("{}: a number of more than {} digits", field, kMostDigits);
    if (text[i] != '^') continue;
    const bool small = i + 1 < text.size() && text[i + 1] >= '1' && text[i + 1] <= '8' &&
                       (i + 2 == text.size() || text[i + 2] < '0' || text[i + 2] > '9');
    if (!small) in.fail("{}: an exponent outside 1 to 8", field);
  }
}

// Errors of what a text stands for become errors of the file.
template <typename F>
auto parse_in(const ByteCursor& in, std::string_view field, F&& parse) {
  try {
    return parse();
  } catch (const Error& e) {
    in.fail("{}: {}", field, e.what());
  }
}

Dim read_dim(ByteCursor& in, std::string_view field) {
  const std::string_view text = in.text(field, kLongestSize);
  check_size_text(in, field, text);
  const Dim d = parse_in(in, field, [&] { return Dim::parse(text); });
  if (d.text() != text) in.fail("{}: \"{}\" is not in its canonical form", field, text);
  return d;
}

// Programs repeat few shapes often: each is written once.
class ShapeTable {
 public:
  std::uint32_t place(const Shape& shape) {
    const auto [at, fresh] = places_.try_emplace(shape.text(), static_cast<std::uint32_t>(texts_.size()));
    if (fresh) texts_.push_back(&at->first);
    return at->second;
  }
  void write(ByteWriter& out) const {
    out.number(static_cast<std::uint32_t>(texts_.size()));
    for (const std::string* t : texts_) out.text(*t);
  }

 private:
  std::map<std::string, std::uint32_t> places_;
  std::vector<const std::string*> texts_;
};

void write_boundaries(ByteWriter& out, const std::vector<BoundaryEntry>& list) {
  out.number(static_cast<std::uint32_t>(list.size()));
  for (const BoundaryEntry& e : list) {
    out.text(e.name);
    out.number(e.operand);
  }
}

std::vector<BoundaryEntry> read_boundaries(ByteCursor& in, std::string_view field, std::size_t operands) {
  std::vector<BoundaryEntry> list(in.count(field, 8));
  for (BoundaryEntry& e : list) {
    e.name = in.text(field);
    e.operand = in.index(field, operands);
  }
  return list;
}

void write_call(ByteWriter& out, const Call& c) {
  out.text(c.def->name);
  out.text(c.def->print(c.attrs));
  out.text(c.kernel != nullptr ? c.kernel->name : std::string_view());
  write_indices(out, c.in);
  write_indices(out, c.out);
  out.number(static_cast<std::uint8_t>(c.phase));
  out.text(c.origin);
}

AttrBlob read_attributes(ByteCursor& in, const OpDef& def) {
  const std::string_view text = in.text("attributes");
  check_size_text(in, "attributes", text);
  AttrBlob attrs = def.defaults();
  std::string_view rest = text;
  while (!rest.empty()) {
    if (rest[0] != ' ') in.fail("{}: attributes \"{}\"", def.name, text);
    rest.remove_prefix(1);
    const std::string_view pair = rest.substr(0, rest.find(' '));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) in.fail("{}: attribute \"{}\" without a value", def.name, pair);
    const bool known =
        parse_in(in, def.name, [&] { return def.set(attrs, pair.substr(0, equals), pair.substr(equals + 1)); });
    if (!known) in.fail("{}: attribute \"{}\"", def.name, pair);
    rest.remove_prefix(pair.size());
  }
  if (def.print(attrs) != text) in.fail("{}: attributes \"{}\" are not in their canonical form", def.name, text);
  return attrs;
}

const Kernel* read_kernel(ByteCursor& in, const OpDef& def, const Backend& backend) {
  const std::string_view name = in.text("kernel");
  if (name.empty()) return nullptr;
  for (const Kernel& row : backend.kernels())
    if (row.name == name && row.op == def.name) return &row;
  in.fail("{}: {} has no kernel \"{}\" for it", def.name, backend.device().text(), name);
}

Call read_call(ByteCursor& in, const Backend& backend, std::size_t operands) {
  Call c;
  const std::string_view op = in.text("op");
  c.def = find_op(op);
  if (c.def == nullptr) in.fail("no op \"{}\"", op);
  c.attrs = read_attributes(in, *c.def);
  c.kernel = read_kernel(in, *c.def, backend);
  c.in = read_indices(in, "operand of a call", operands);
  c.out = read_indices(in, "result of a call", operands);
  c.phase = static_cast<Phase>(in.index_u8("phase", 3));
  c.origin = in.text("origin");
  return c;
}

// Kernels read lines of 64 bytes.
ConstantEntry read_constant(ByteCursor& in) {
  ConstantEntry c;
  c.shape = read_shape(in, "shape of a constant");
  const std::string_view bytes = in.text("constant", SIZE_MAX);
  const auto owner = std::make_shared<Tensor>(Tensor::zeros({static_cast<std::int64_t>(bytes.size())}, DType::u8));
  std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<char*>(owner->mutable_data()));
  c.data = {owner, owner->data()};
  c.bytes = static_cast<std::int64_t>(bytes.size());
  return c;
}

// The table as ShapeTable writes it, so that one program has one text: each shape once, in the order of first use.
std::vector<Shape> read_shapes(ByteCursor& in) {
  std::vector<Shape> shapes;
  std::set<std::string> seen;
  for (std::size_t n = in.count("shapes", 4); n > 0; --n) {
    shapes.push_back(read_shape(in, "shape"));
    if (!seen.insert(shapes.back().text()).second) in.fail("the shape {} is there twice", shapes.back().text());
  }
  return shapes;
}

std::vector<Operand> read_operands(ByteCursor& in) {
  const std::vector<Shape> shapes = read_shapes(in);
  std::vector<Operand> operands(in.count("operands", 17));
  std::size_t used = 0;
  for (Operand& o : operands) {
    const auto place = static_cast<std::size_t>(in.index("shape of an operand", std::min(used + 1, shapes.size())));
    used = std::max(used, place + 1);
    o.shape = shapes[place];
    o.place = static_cast<Place>(in.index_u8("place", 5));
    o.index = in.index("index of an operand", INT32_MAX);
    o.first = in.number<std::int32_t>("live range");
    o.last = in.number<std::int32_t>("live range");
  }
  if (used != shapes.size()) in.fail("{} of {} shapes belong to no operand", shapes.size() - used, shapes.size());
  return operands;
}

}  // namespace

Shape read_shape(ByteCursor& in, std::string_view field) {
  const std::string_view text = in.text(field, kLongestSize);
  check_size_text(in, field, text);
  const Shape s = parse_in(in, field, [&] { return Shape::parse(text); });
  if (s.text() != text) in.fail("{}: \"{}\" is not in its canonical form", field, text);
  return s;
}

void write_weight_entry(ByteWriter& out, const WeightEntry& e) {
  out.text(e.param);
  out.text(name(e.dtype));
  out.number(static_cast<std::uint8_t>(e.layout));
  out.text(e.shape.text());
  out.number(static_cast<std::uint8_t>(e.transposed));
}

WeightEntry read_weight_entry(ByteCursor& in) {
  WeightEntry e;
  e.param = in.text("param");
  const std::string_view dtype = in.text("dtype", 16);
  const auto known = dtype_from_name(dtype);
  if (!known || name(*known) != dtype) in.fail("dtype \"{}\"", dtype);
  e.dtype = *known;
  e.layout = static_cast<Layout>(in.index_u8("layout", 2));
  e.shape = read_shape(in, "shape of a param");
  e.transposed = in.boolean("transposed");
  return e;
}

bool can_write(const Program& p) {
  return std::all_of(p.calls.begin(), p.calls.end(), [](const Call& c) { return c.flow.kind == Flow::none; });
}

void write_program(ByteWriter& out, const Program& p) {
  out.text(p.name);
  out.number(p.alignment);
  out.number(p.budget);
  ShapeTable shapes;
  ByteWriter operands;
  operands.number(static_cast<std::uint32_t>(p.operands.size()));
  for (const Operand& o : p.operands) {
    operands.number(shapes.place(o.shape));
    operands.number(static_cast<std::uint8_t>(o.place));
    operands.number(o.index);
    operands.number(o.first);
    operands.number(o.last);
  }
  shapes.write(out);
  out.append(operands.bytes());
  out.number(static_cast<std::uint32_t>(p.weights.size()));
  for (const WeightEntry& w : p.weights) write_weight_entry(out, w);
  out.number(static_cast<std::uint32_t>(p.constants.size()));
  for (const ConstantEntry& c : p.constants) {
    out.text(c.shape.text());
    out.text({reinterpret_cast<const char*>(c.data.get()), static_cast<std::size_t>(c.bytes)});
  }
  out.number(static_cast<std::uint32_t>(p.states.size()));
  for (const StateEntry& s : p.states) {
    out.text(s.name);
    out.text(s.shape.text());
  }
  write_boundaries(out, p.inputs);
  write_boundaries(out, p.outputs);
  out.number(static_cast<std::uint32_t>(p.calls.size()));
  for (const Call& c : p.calls) write_call(out, c);
  out.number(static_cast<std::uint32_t>(p.checks.size()));
  for (const DimCheck& c : p.checks) {
    out.text(c.left.text());
    out.text(c.right.text());
    out.text(c.message);
  }
}

Program read_program(ByteCursor& in, const Backend& backend) {
  Program p;
  p.name = in.text("name of the program");
  p.alignment = in.size("alignment", kLeastAlignment, kMostAlignment);
  p.budget = in.size("budget", 0, INT64_MAX);
  p.operands = read_operands(in);
  p.weights.resize(in.count("weights", 14));
  for (WeightEntry& w : p.weights) w = read_weight_entry(in);
  p.constants.resize(in.count("constants", 8));
  for (ConstantEntry& c : p.constants) c = read_constant(in);
  p.states.resize(in.count("states", 8));
  for (StateEntry& s : p.states) {
    s.name = in.text("state");
    s.shape = read_shape(in, "shape of a state");
  }
  p.inputs = read_boundaries(in, "input", p.operands.size());
  p.outputs = read_boundaries(in, "output", p.operands.size());
  p.calls.resize(in.count("calls", 25));
  for (Call& c : p.calls) c = read_call(in, backend, p.operands.size());
  p.checks.resize(in.count("checks", 12));
  for (DimCheck& c : p.checks) {
    c.left = read_dim(in, "check");
    c.right = read_dim(in, "check");
    c.message = in.text("message of a check");
  }
  parse_in(in, "program", [&] { check_program(p, backend); });
  return p;
}

void write_plan(ByteWriter& out, const Plan& plan) {
  out.number(static_cast<std::uint32_t>(plan.upper.sizes().size()));
  for (const auto& [symbol, size] : plan.upper.sizes()) {
    out.text(symbol.name());
    out.number(size);
  }
  out.number(static_cast<std::int64_t>(plan.threads));
  out.number(plan.max_context);
  out.number(plan.arena_bytes);
  for (const std::int64_t o : plan.offsets) out.number(o);
  for (const Plan::CallPlan& c : plan.calls)
    out.number(
        static_cast<std::uint8_t>((c.zero_before ? 1 : 0) | (c.barrier_before ? 2 : 0) | (c.barrier_after ? 4 : 0)));
}

Plan read_plan(ByteCursor& in, const Program& program) {
  Plan plan;
  for (std::size_t n = in.count("sizes", 12); n > 0; --n) {
    const std::string_view name = in.text("symbol", 64);
    const std::int64_t size = in.size("size", 0, kMostUnits);
    const Symbol symbol = parse_in(in, "symbol", [&] { return Symbol::named(name); });
    if (plan.upper.get(symbol)) in.fail("the symbol \"{}\" is bound twice", name);
    plan.upper.set(symbol, size);
  }
  plan.threads = static_cast<int>(in.size("threads", 1, 1024));
  plan.max_context = in.size("context", 0, kMostUnits);
  plan.arena_bytes = in.size("bytes of the arena", 0, kMostUnits);
  plan.offsets.resize(program.operands.size());
  for (std::int64_t& o : plan.offsets) o = in.size("offset", -1, kMostUnits);
  plan.calls.resize(program.calls.size());
  for (Plan::CallPlan& c : plan.calls) {
    const std::uint8_t flags = in.index_u8("barriers of a call", 8);
    c.zero_before = (flags & 1) != 0;
    c.barrier_before = (flags & 2) != 0;
    c.barrier_after = (flags & 4) != 0;
  }
  parse_in(in, "plan", [&] {
    derive_plan(program, plan);
    check_plan(program, plan);
  });
  return plan;
}

}  // namespace rlx
