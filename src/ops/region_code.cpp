// From the ops of a region to its tile program.
#include "ops/region_code.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "ops/arithmetic.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/reduction.h"
#include "ops/region.h"

namespace rlx {
namespace {

template <typename Op>
std::optional<Op> tile_as(const RegionInstr& i) {
  if (i.op->id != op_id(Op::name)) return std::nullopt;
  return from_blob<Op>(i.attrs);
}

// Writes the instructions of a program; a value is the number of the instruction that makes it.
class TileWriter {
 public:
  explicit TileWriter(const RegionProgram& program) : program_(program) {}

  TileProgram run() {
    for (std::size_t k = 0; k < program_.inputs.size(); ++k) {
      TileInstr load{.op = TileOp::load, .fn = static_cast<std::uint8_t>(k), .column = program_.inputs[k].column};
      values_.push_back(put(load));
      dtypes_.push_back(program_.inputs[k].dtype);
      out_.column_input[k] = load.column;
    }
    for (const RegionInstr& i : program_.code) {
      const int v = write(i);
      dtypes_.push_back(region_dtype(i, dtypes_));
      const bool narrow = dtypes_.back() == DType::f16 || dtypes_.back() == DType::bf16;
      values_.push_back(narrow ? map(TileOp::round, v, -1, static_cast<int>(dtypes_.back())) : v);
    }
    join_pairs();
    drop_unused();
    set_phases();
    place();
    finish();
    return {std::move(code_), out_};
  }

 private:
  int put(TileInstr i) {
    if (code_.size() >= kTileCode) fail(ErrorCode::limit, "region: more than {} tile instructions", kTileCode);
    code_.push_back(i);
    return static_cast<int>(code_.size()) - 1;
  }
  bool column(int v) const { return v < 0 || code_[static_cast<std::size_t>(v)].column; }
  // An element-wise instruction: a column when all its operands are.
  int map(TileOp op, std::array<int, 3> in, int fn = 0, float p = 0.0f, float q = 0.0f) {
    TileInstr i{.op = op, .fn = static_cast<std::uint8_t>(fn), .p = p, .q = q};
    i.a = static_cast<std::int16_t>(in[0]);
    i.b = static_cast<std::int16_t>(in[1]);
    i.c = static_cast<std::int16_t>(in[2]);
    i.column = column(in[0]) && column(in[1]) && column(in[2]);
    return put(i);
  }
  int map(TileOp op, int a, int b = -1, int fn = 0, float p = 0.0f, float q = 0.0f) {
    return map(op, std::array{a, b, -1}, fn, p, q);
  }
  int reduce(TileOp op, int a, int b = -1, int fn = 0, float p = 0.0f) {
    const int v = map(op, a, b, fn, p);
    code_[static_cast<std::size_t>(v)].column = true;
    out_.reduces = true;
    return v;
  }
  int reduce(Reduction kind, int a) { return reduce(TileOp::reduce, a, -1, static_cast<int>(kind)); }
  int unary(UnaryFunction fn, int a) { return map(TileOp::unary, a, -1, static_cast<int>(fn)); }

  int write(const RegionInstr& i) {
    std::array<int, 3> in = {-1, -1, -1};
    for (std::size_t k = 0; k < i.in.size(); ++k) in[k] = values_[static_cast<std::size_t>(i.in[k])];
    if (const int v = write_pointwise(i, in); v >= 0) return v;
    return write_row(i, in);
  }

  int write_pointwise(const RegionInstr& i, const std::array<int, 3>& in) {
    constexpr std::pair<std::string_view, TileOp> kPairs[] = {
        {Add::name, TileOp::add},         {Sub::name, TileOp::sub},         {Mul::name, TileOp::mul},
        {Div::name, TileOp::div},         {Pow::name, TileOp::pow},         {Maximum::name, TileOp::maximum},
        {Minimum::name, TileOp::minimum}, {Where::name, TileOp::where}};
    for (const auto& [name, op] : kPairs)
      if (i.op->name == name) return map(op, in);
    if (const auto op = tile_as<Compare>(i)) return map(TileOp::compare, in, static_cast<int>(op->relation));
    if (const auto op = tile_as<Clamp>(i)) return map(TileOp::clamp, in, 0, op->low, op->high);
    if (const auto op = tile_as<Unary>(i)) return map(TileOp::unary, in, static_cast<int>(op->fn));
    if (const auto op = tile_as<Activation>(i))
      return op->act == Act::none ? in[0] : map(TileOp::activation, in, static_cast<int>(op->act));
    if (const auto op = tile_as<Scale>(i)) return map(TileOp::scale, in, 0, op->factor);
    if (const auto op = tile_as<Softcap>(i)) return map(TileOp::softcap, in, 0, op->cap);
    if (tile_as<Cast>(i)) return in[0];  // run() rounds
    return -1;
  }

  int write_row(const RegionInstr& i, const std::array<int, 3>& in) {
    if (const auto op = tile_as<Reduce>(i)) return reduce(op->kind, in[0]);
    if (const auto op = tile_as<RmsNorm>(i)) {
      const int scale = reduce(TileOp::inverse_rms, in[0], -1, 0, op->eps);
      return map(TileOp::scale_affine, {in[0], scale, in[1]}, 0, op->weight_offset);
    }
    if (const auto op = tile_as<LayerNorm>(i)) {
      const int mean = reduce(Reduction::mean, in[0]);
      const int scale = reduce(TileOp::inverse_std, in[0], mean, 0, op->eps);
      const int normed = map(TileOp::scale_affine, {map(TileOp::sub, in[0], mean), scale, in[1]});
      return op->bias ? map(TileOp::add, normed, in[2]) : normed;
    }
    const bool logarithm = tile_as<LogSoftmax>(i).has_value();
    RLX_CHECK(logarithm || tile_as<Softmax>(i), std::string(i.op->name));
    const int shifted = map(TileOp::sub, in[0], reduce(Reduction::max, in[0]));
    const int powers = unary(UnaryFunction::exp, shifted), sum = reduce(Reduction::sum, powers);
    return logarithm ? map(TileOp::sub, shifted, unary(UnaryFunction::log, sum)) : map(TileOp::div, powers, sum);
  }

  std::vector<int> readers() const {
    std::vector<int> n(code_.size(), 0);
    for (const TileInstr& i : code_)
      for (int v : {i.a, i.b, i.c})
        if (v >= 0) ++n[static_cast<std::size_t>(v)];
    for (int o : program_.outputs) n[static_cast<std::size_t>(values_[static_cast<std::size_t>(o)])] += 2;
    return n;
  }

  // Super-ops: a pair whose first result only the second reads saves a trip to the tile.
  void join_pairs() {
    const std::vector<int> n = readers();
    for (TileInstr& i : code_) {
      if (i.column) continue;
      for (const bool swap : {false, true}) {
        const std::int16_t first = swap ? i.b : i.a, second = swap ? i.a : i.b;
        if (first < 0 || n[static_cast<std::size_t>(first)] != 1) continue;
        const TileInstr& from = code_[static_cast<std::size_t>(first)];
        if (from.column) continue;
        if (i.op == TileOp::add && from.op == TileOp::mul && second != first) {
          i.op = TileOp::mul_add;
          i.c = second;
          i.b = from.b;
          i.a = from.a;
          break;
        }
        if (i.op == TileOp::mul && from.op == TileOp::activation && second != first) {
          i.op = TileOp::act_mul;
          i.fn = from.fn;
          i.b = second;
          i.a = from.a;
          break;
        }
        if (i.op == TileOp::unary && i.fn == static_cast<std::uint8_t>(UnaryFunction::exp) &&
            from.op == TileOp::sub && !swap) {
          i.op = TileOp::sub_exp;
          i.b = from.b;
          i.a = from.a;
          break;
        }
      }
    }
  }

  void drop_unused() {
    std::vector<bool> live(code_.size(), false);
    for (int o : program_.outputs) live[static_cast<std::size_t>(values_[static_cast<std::size_t>(o)])] = true;
    for (std::size_t k = code_.size(); k-- > 0;) {
      if (!live[k]) continue;
      for (int v : {code_[k].a, code_[k].b, code_[k].c})
        if (v >= 0) live[static_cast<std::size_t>(v)] = true;
    }
    std::vector<TileInstr> kept;
    std::vector<std::int16_t> moved(code_.size(), -1);
    for (std::size_t k = 0; k < code_.size(); ++k) {
      if (!live[k]) continue;
      moved[k] = static_cast<std::int16_t>(kept.size());
      TileInstr i = code_[k];
      for (std::int16_t* v : {&i.a, &i.b, &i.c})
        if (*v >= 0) *v = moved[static_cast<std::size_t>(*v)];
      kept.push_back(i);
    }
    for (int& v : values_) v = v >= 0 ? moved[static_cast<std::size_t>(v)] : v;
    code_ = std::move(kept);
  }

  static bool is_reduction(const TileInstr& i) {
    return i.op == TileOp::reduce || i.op == TileOp::inverse_rms || i.op == TileOp::inverse_std;
  }

  void set_phases() {
    for (TileInstr& i : code_) {
      for (int v : {i.a, i.b, i.c}) {
        if (v < 0) continue;
        const TileInstr& from = code_[static_cast<std::size_t>(v)];
        i.phase = std::max<std::int16_t>(i.phase, static_cast<std::int16_t>(from.phase + is_reduction(from)));
      }
      out_.phases = std::max(out_.phases, i.phase + 1 + is_reduction(i));
    }
    if (out_.phases > kTilePhases) fail(ErrorCode::limit, "region: more than {} phases of reductions", kTilePhases);
    reload();
    for (const TileInstr& i : code_)
      for (int v : {i.a, i.b, i.c})
        if (v >= 0 && !code_[static_cast<std::size_t>(v)].column && code_[static_cast<std::size_t>(v)].phase < i.phase)
          code_[static_cast<std::size_t>(v)].whole_row = true;
  }

  // An input that a later phase reads is loaded again: it still lies in the cache, and a row of it may not.
  void reload() {
    std::vector<TileInstr> all;
    std::vector<std::int16_t> moved;
    std::vector<std::array<std::int16_t, kTilePhases>> again;
    for (TileInstr i : code_) {
      for (std::int16_t* v : {&i.a, &i.b, &i.c}) {
        if (*v < 0) continue;
        const auto from = static_cast<std::size_t>(*v);
        const TileInstr& made = code_[from];
        *v = moved[from];
        if (made.op != TileOp::load || made.column || made.phase >= i.phase) continue;
        std::int16_t& copy = again[from][static_cast<std::size_t>(i.phase)];
        if (copy < 0) {
          TileInstr load = made;
          load.phase = i.phase;
          all.push_back(load);
          copy = static_cast<std::int16_t>(all.size() - 1);
        }
        *v = copy;
      }
      all.push_back(i);
      moved.push_back(static_cast<std::int16_t>(all.size() - 1));
      again.emplace_back().fill(-1);
    }
    if (all.size() > kTileCode) fail(ErrorCode::limit, "region: more than {} tile instructions", kTileCode);
    for (int& v : values_) v = v >= 0 ? moved[static_cast<std::size_t>(v)] : v;
    code_ = std::move(all);
    drop_unused();  // loads that only later phases read
  }

  // Tile registers are free again after the last reader of their phase; rows and columns stay.
  void place() {
    const auto count = code_.size();
    std::vector<std::size_t> last(count, 0);
    for (std::size_t k = 0; k < count; ++k)
      for (int v : {code_[k].a, code_[k].b, code_[k].c})
        if (v >= 0) last[static_cast<std::size_t>(v)] = k;
    // Results are stored at the end of the tile.
    for (int o : program_.outputs) last[static_cast<std::size_t>(values_[static_cast<std::size_t>(o)])] = count;
    std::vector<std::size_t> busy;  // per register: the last instruction that reads it
    // Phases run one after the other, whatever the order of the list.
    for (int phase = 0; phase < out_.phases; ++phase) {
      busy.assign(busy.size(), 0);
      for (std::size_t k = 0; k < count; ++k) {
        TileInstr& i = code_[k];
        if (i.phase != phase) continue;
        if (i.column) {
          i.slot = static_cast<std::int16_t>(out_.columns++);
        } else if (i.whole_row) {
          i.slot = static_cast<std::int16_t>(out_.rows++);
        } else {
          // An operand's register may be taken by the result only after this instruction.
          std::size_t r = 0;
          while (r < busy.size() && busy[r] > k) ++r;
          if (r == busy.size()) busy.push_back(0);
          busy[r] = std::max(last[k], k) + 1;
          i.slot = static_cast<std::int16_t>(r);
        }
      }
    }
    out_.tiles = static_cast<int>(busy.size());
  }

  void finish() {
    out_.instructions = static_cast<int>(code_.size());
    out_.inputs = static_cast<int>(program_.inputs.size());
    for (int o : program_.outputs) {
      const int v = values_[static_cast<std::size_t>(o)];
      TileStore& s = out_.stores[out_.outputs++];
      s.value = static_cast<std::int16_t>(v);
      s.column = code_[static_cast<std::size_t>(v)].column;
      const int made = o - static_cast<int>(program_.inputs.size());
      if (made >= 0)
        if (const auto op = tile_as<Reduce>(program_.code[static_cast<std::size_t>(made)])) s.dropped = !op->keep_dims;
    }
  }

  const RegionProgram& program_;
  RegionCode out_;
  std::vector<TileInstr> code_;
  std::vector<int> values_;  // of the program -> instruction
  std::vector<DType> dtypes_;
};

}  // namespace

TileProgram make_region_code(const RegionProgram& program) { return TileWriter(program).run(); }

}  // namespace rlx
