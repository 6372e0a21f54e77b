// Every kernel row that can run on this machine, over every sample of its op, against the
// interpreter: with one and with several threads (bitwise equal), and with padded, misaligned rows.
// A row that takes no sample at all is a failure: an untested kernel cannot exist.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <thread>

#include "backends/cpu/backend.h"
#include "backends/cpu/kernels.h"
#include "device/view.h"
#include "ops/fused.h"
#include "ops/materialize.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

struct Buffer {
  std::vector<std::byte> bytes;
  std::byte* at = nullptr;
  void make(std::int64_t n, std::int64_t misalign = 0) {
    bytes.assign(static_cast<std::size_t>(n) + 192, std::byte{0});
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    at = reinterpret_cast<std::byte*>((address + 63) / 64 * 64) + misalign;
  }
};

// How the operands of one run lie in memory.
struct Arrangement {
  bool packed_weights = false;
  bool padded_rows =
      false;  // rows of f32 matrices 12 bytes apart from each other, 4 bytes off alignment
  bool in_place = false;  // result 0 lies where the operand lies that the op names
};

bool is_weight(const Kernel& row, const Sample& sample, std::size_t i) {
  if (row.op == "fused_linear")
    return i >= 1 && i <= static_cast<std::size_t>(from_blob<FusedLinear>(sample.op).weights);
  if (row.op == "expert_linear") return i == 2;
  if (row.op == "expert_gated_linear") return i == 2 || i == 3;
  return (row.op == "linear" && i == 1) || (row.op == "gated_linear" && (i == 1 || i == 2));
}

class RowRun {
 public:
  RowRun(const Kernel& row, const Sample& sample, const std::vector<Tensor>& values,
         Arrangement how)
      : row_(row), sample_(sample), values_(values), how_(how), backend_(cpu::backend()) {
    for (std::size_t i = 0; i < sample.operands.size(); ++i) in_shapes_.push_back(shape_of(i));
    const Graph graph = sample_graph(*find_op(row.op), sample);
    const Node& node = graph.nodes().back();
    for (const Shape& s : node.results)
      out_shapes_.push_back(s.kind == ShapeKind::kv ? s.with(backend_.kv_layout()) : s);
  }

  bool accepted() const {
    for (std::size_t i = 0; how_.packed_weights && i < in_shapes_.size(); ++i)
      if (is_weight(row_, sample_, i) && !backend_.can_pack(in_shapes_[i].dtype, in_shapes_[i].dtype,
                                                   *in_shapes_[i].dim(-1).constant()))
        return false;
    return row_.accepts == nullptr || row_.accepts({sample_.op.data(), in_shapes_, out_shapes_});
  }

  // Whether the op lets result 0 lie in the place of an operand, and this sample has one of its shape.
  bool can_be_in_place() const {
    const OpDef& def = *find_op(row_.op);
    const int k = def.in_place == nullptr ? -1 : def.in_place(sample_.op);
    return k >= 0 && in_shapes_[static_cast<std::size_t>(k)] == out_shapes_[0];
  }

  // The results, decoded to floats, kv states as run_sample() gives them.
  std::vector<std::vector<float>> operator()(int threads) {
    storage_.clear();
    in_.clear();
    out_.clear();
    for (std::size_t i = 0; i < in_shapes_.size(); ++i) in_.push_back(operand(i));
    for (const Shape& s : out_shapes_)
      out_.push_back(s.is_updated() ? in_[state_operand()] : result(s));
    if (how_.in_place) out_[0] = in_[static_cast<std::size_t>(find_op(row_.op)->in_place(sample_.op))];
    call(threads);
    std::vector<std::vector<float>> results;
    for (std::size_t i = 0; i < out_.size(); ++i)
      results.push_back(out_shapes_[i].kind == ShapeKind::kv ? export_cache() : decode(out_[i]));
    return results;
  }

 private:
  Shape shape_of(std::size_t i) const {
    const Shape& s = sample_.operands[i].shape;
    if (s.kind == ShapeKind::kv) return s.with(backend_.kv_layout());
    return how_.packed_weights && is_weight(row_, sample_, i) ? s.with(Layout::p16) : s;
  }

  std::size_t state_operand() const {
    for (std::size_t i = 0; i < in_shapes_.size(); ++i)
      if (in_shapes_[i].is_updated()) return i;
    return 0;
  }
  std::size_t pages_operand() const {
    for (std::size_t i = 0; i < in_shapes_.size(); ++i)
      if (in_shapes_[i].kind == ShapeKind::pages) return i;
    return 0;
  }

  Buffer& buffer(std::int64_t bytes, std::int64_t misalign = 0) {
    storage_.push_back(std::make_unique<Buffer>());
    storage_.back()->make(bytes, misalign);
    return *storage_.back();
  }

  bool padded(const Shape& s) const {
    return how_.padded_rows && s.dtype == DType::f32 && s.rank() == 2 &&
           s.kind == ShapeKind::tensor && s.layout == Layout::plain;
  }

  TensorView operand(std::size_t i) {
    const Shape& s = in_shapes_[i];
    const Tensor& value = values_[i];
    TensorView v = make_view(s, {});
    if (s.kind == ShapeKind::kv) {
      import_cache(s, value);
      v.data = &pool_;
    } else if (s.kind == ShapeKind::pages) {
      v.rank = 2;
      for (int a = 0; a < 2; ++a) v.dims[a] = value.dims()[static_cast<std::size_t>(a)];
      v.strides[1] = 4;
      v.strides[0] = 4 * v.dims[1];
      v.data = const_cast<std::byte*>(value.data());
    } else if (s.kind == ShapeKind::recurrent) {
      v.dims[0] = value.dims()[0];
      v.data = buffer(value.byte_size()).at;
      std::memcpy(v.data, value.data(), static_cast<std::size_t>(value.byte_size()));
    } else if (s.layout == Layout::p16) {
      // [n, k], or such a matrix for each expert.
      const std::int64_t n = v.dims[v.rank - 2], k = v.dims[v.rank - 1],
                         bytes = backend_.packed_bytes(s.dtype, n, k),
                         count = v.rank == 3 ? v.dims[0] : 1;
      v.data = buffer(bytes * count).at;
      for (std::int64_t e = 0; e < count; ++e)
        backend_.pack({value.data() + e * n * row_bytes(value.dtype(), k), value.dtype(), s.dtype, n,
                       k, static_cast<std::byte*>(v.data) + e * bytes},
                      0, (n + 15) / 16);
    } else {
      place(v, s);
      for (std::int64_t r = 0; r < rows(v); ++r)
        std::memcpy(row_at(v, r), value.data() + r * row_size(v),
                    static_cast<std::size_t>(row_size(v)));
    }
    return v;
  }

  static std::int64_t rows(const TensorView& v) {
    std::int64_t n = 1;
    for (int a = 0; a + 1 < v.rank; ++a) n *= v.dims[a];
    return n;
  }
  static std::int64_t columns(const TensorView& v) { return v.rank == 0 ? 1 : v.dims[v.rank - 1]; }
  static std::int64_t row_size(const TensorView& v) { return row_bytes(v.dtype, columns(v)); }
  static std::byte* row_at(const TensorView& v, std::int64_t r) {
    return static_cast<std::byte*>(v.data) + r * (v.rank > 1 ? v.strides[v.rank - 2] : 0);
  }

  void place(TensorView& v, const Shape& s) {
    if (padded(s)) v.strides[0] += 12;
    v.data =
        buffer(rows(v) * (v.rank > 1 ? v.strides[v.rank - 2] : row_size(v)) + 64, padded(s) ? 4 : 0)
            .at;
  }

  TensorView result(const Shape& s) {
    TensorView v = make_view(s, {});
    place(v, s);
    // What a kernel leaves out shows as NaN.
    for (std::int64_t r = 0; r < rows(v); ++r)
      std::memset(row_at(v, r), 0xff, static_cast<std::size_t>(row_size(v)));
    return v;
  }

  std::vector<float> decode(const TensorView& v) const {
    std::vector<float> out(static_cast<std::size_t>(rows(v) * columns(v)));
    for (std::int64_t r = 0; r < rows(v); ++r) decoder(v.dtype)(row_at(v, r), out.data() + r * columns(v), columns(v));
    return out;
  }

  // Calls f(slot, token, page, token in page) for every token place of the cache.
  template <typename F>
  void each_token(F&& f) const {
    const Tensor& table = values_[pages_operand()];
    const std::int64_t slots = table.dims()[0], per_slot = table.dims()[1];
    for (std::int64_t s = 0; s < slots; ++s)
      for (std::int64_t t = 0; t < per_slot * kPageTokens; ++t)
        f(s, t,
          std::int64_t{
              table.as<std::int32_t>()[static_cast<std::size_t>(s * per_slot + t / kPageTokens)]},
          t % kPageTokens);
  }

  void import_cache(const Shape& s, const Tensor& content) {
    heads_ = *s.dim(0).constant();
    dim_ = *s.dim(1).constant();
    kv_dtype_ = s.dtype;
    const std::int64_t pages = values_[pages_operand()].elements();
    const KvHeadBytes b = backend_.kv_head_bytes(s.dtype, dim_);
    pool_ = {buffer(b.k * heads_ * pages).at,
             buffer(b.v * heads_ * pages).at,
             b.k * heads_,
             b.k,
             b.v * heads_,
             b.v,
             pages};
    const std::vector<std::int32_t>& held = sample_.operands[state_operand()].ints;
    std::int64_t total = 0;
    std::vector<std::int64_t> first;
    for (std::int32_t n : held) {
      first.push_back(total);
      total += n;
    }
    const float* k = content.as<float>().data();
    const float* v = k + total * heads_ * dim_;
    each_token([&](std::int64_t slot, std::int64_t t, std::int64_t page, std::int64_t at) {
      if (t >= held[static_cast<std::size_t>(slot)]) return;
      for (std::int64_t h = 0; h < heads_; ++h) {
        const std::int64_t offset =
            ((first[static_cast<std::size_t>(slot)] + t) * heads_ + h) * dim_;
        backend_.kv_store({&pool_, kv_dtype_, h, dim_, page, at, 1}, k + offset, v + offset);
      }
    });
  }

  std::vector<float> export_cache() const {
    const Tensor& table = values_[pages_operand()];
    const std::int64_t places = table.elements() * kPageTokens,
                       per_slot = table.dims()[1] * kPageTokens;
    std::vector<float> out(static_cast<std::size_t>(2 * places * heads_ * dim_));
    each_token([&](std::int64_t slot, std::int64_t t, std::int64_t page, std::int64_t at) {
      for (std::int64_t h = 0; h < heads_; ++h) {
        float* k = out.data() + ((slot * per_slot + t) * heads_ + h) * dim_;
        backend_.kv_load({&pool_, kv_dtype_, h, dim_, page, at, 1}, k, k + places * heads_ * dim_);
      }
    });
    return out;
  }

  void call(int threads) {
    ScratchNeed need;
    const std::int64_t context =
        pages_operand() != 0 ? values_[pages_operand()].dims()[1] * kPageTokens : 0;
    if (row_.scratch != nullptr)
      need = row_.scratch({sample_.op.data(), in_.data(), out_.data(), threads, context});
    std::byte* shared = buffer(need.shared + 64).at;
    std::vector<std::thread> team;
    for (int t = 0; t < threads; ++t) {
      KernelArgs a;
      a.in = in_.data();
      a.out = out_.data();
      a.inputs = static_cast<int>(in_.size());
      a.outputs = static_cast<int>(out_.size());
      a.thread = t;
      a.threads = threads;
      a.scratch = buffer(need.per_worker + 64).at;
      a.shared = shared;
      team.emplace_back([this, a] { row_.run(sample_.op.data(), a); });
    }
    for (std::thread& t : team) t.join();
  }

  const Kernel& row_;
  const Sample& sample_;
  const std::vector<Tensor>& values_;
  Arrangement how_;
  const Backend& backend_;
  std::vector<Shape> in_shapes_, out_shapes_;
  std::vector<std::unique_ptr<Buffer>> storage_;
  std::vector<TensorView> in_, out_;
  KvPool pool_{};
  std::int64_t heads_ = 0, dim_ = 0;
  DType kv_dtype_ = DType::f32;
};

// quality.md, 4.3: normalised mean square error by what limits the precision of the result.
double limit(const Kernel& row, const Sample& s, const Shape& result) {
  if (row.isa == Isa::amx) return 5e-4;  // rounds both factors to bf16
  bool narrow = false, half = false;
  for (const SampleOperand& o : s.operands) {
    half |= o.shape.dtype == DType::f16 || o.shape.dtype == DType::bf16;
    narrow |= o.shape.kind == ShapeKind::kv && o.shape.dtype != DType::f32;
  }
  if (result.dtype == DType::xq8)
    return 1e-4;  // a value at a rounding tie moves by one step of max / 127
  if (result.dtype == DType::f16) return 1e-6;
  if (result.dtype == DType::bf16) return 1e-5;
  if (narrow) return 5e-4;
  return half ? 5e-4 : 1e-7;
}

double nmse(const std::vector<float>& got, std::span<const float> want) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    // Infinities and NaNs must be where the reference has them.
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    const double d = double(got[i]) - double(want[i]);
    error += d * d;
  }
  for (const float w : want)
    if (std::isfinite(w)) power += double(w) * double(w);
  return power == 0 ? error : error / power;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Conformance : public testing::TestWithParam<std::string> {};

std::vector<std::string> op_names() {
  std::map<std::string, int> names;
  for (const Kernel& k : cpu::cpu_kernels()) ++names[std::string(k.op)];
  std::vector<std::string> list;
  for (auto& [n, c] : names) list.push_back(n);
  return list;
}

TEST_P(Conformance, EveryRowMatchesTheInterpreterOnEverySample) {
  const OpDef* def = find_op(GetParam());
  ASSERT_NE(def, nullptr);
  const Isa machine = cpu::isa_of(cpu_features());
  std::map<std::string, int> taken;
  for (const Kernel& row : cpu::cpu_kernels())
    if (row.op == GetParam() && row.isa <= machine) taken[std::string(row.name)] = 0;
  if (taken.empty()) GTEST_SKIP() << "this machine runs no row of " << GetParam();
  for (const Sample& sample : def->samples()) {
    const std::vector<Tensor> values = materialize(sample, 7);
    const std::vector<Tensor> want = run_sample(*def, sample, values);
    for (const Kernel& row : cpu::cpu_kernels()) {
      if (row.op != GetParam() || row.isa > machine) continue;
      for (const Arrangement how : {Arrangement{false, false}, Arrangement{true, false},
                                    Arrangement{true, true}, Arrangement{false, true}}) {
        RowRun run(row, sample, values, how);
        if (!run.accepted()) continue;
        ++taken[std::string(row.name)];
        SCOPED_TRACE(std::string(row.name) + " on " + sample.name +
                     (how.padded_rows ? " padded" : ""));
        const auto got = run(1);
        ASSERT_EQ(got.size(), want.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          const std::vector<float> reference = want[i].to_floats();
          ASSERT_EQ(got[i].size(), reference.size());
          EXPECT_LE(nmse(got[i], reference), limit(row, sample, want[i].shape())) << "result " << i;
        }
        const auto again = run(3);
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_TRUE(same_bits(got[i], again[i])) << "1 and 3 threads differ in result " << i;
        if (run.can_be_in_place()) {
          RowRun over(row, sample, values, {how.packed_weights, how.padded_rows, true});
          for (const int threads : {1, 3})
            EXPECT_TRUE(same_bits(over(threads)[0], got[0])) << "in place, " << threads << " threads";
        }
        if (HasFailure()) return;
      }
    }
  }
  for (const auto& [name, count] : taken)
    EXPECT_GT(count, 0) << name << " takes no sample of " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Cpu, Conformance, testing::ValuesIn(op_names()),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace rlx
