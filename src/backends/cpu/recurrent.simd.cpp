// Short convolutions and recurrent scans. Each sixteen lanes of a state go through the rows in order,
// so the bits depend neither on threads nor on how a sequence is cut into steps.
#include "backends/cpu/recurrent.h"

#include "backends/cpu/recurrent_run.h"
#include "backends/cpu/table.h"
#include "ops/recurrent.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// ---- depthwise causal convolution ----
struct Conv {
  Lines x, w, y;
  const float* bias;
  std::int64_t taps;
  Range lanes;  // of this worker
};

// One row: taps[j] points at lane 0 of the row that w's row j multiplies; nullptr: zeros.
template <Act A>
RLX_SIMD void conv_row(const Conv& c, const float* const* taps, float* out) {
  const std::int64_t whole = c.lanes.begin + (c.lanes.end - c.lanes.begin) / 16 * 16;
  for (std::int64_t i = c.lanes.begin; i < whole; i += 16) {
    f32x16 sum = c.bias == nullptr ? zero_f32() : load(c.bias + i);
    for (std::int64_t j = 0; j < c.taps; ++j)
      sum = fma(load(c.w.row(j) + i), taps[j] == nullptr ? zero_f32() : load(taps[j] + i), sum);
    store(out + i, activate<A>(sum));
  }
  if (whole == c.lanes.end) return;
  const int rest = static_cast<int>(c.lanes.end - whole);
  f32x16 sum = c.bias == nullptr ? zero_f32() : load_partial(c.bias + whole, rest);
  for (std::int64_t j = 0; j < c.taps; ++j)
    sum = fma(load_partial(c.w.row(j) + whole, rest),
              taps[j] == nullptr ? zero_f32() : load_partial(taps[j] + whole, rest), sum);
  store_partial(out + whole, activate<A>(sum), rest);
}

// The state after a run: the last taps - 1 rows of what was before and x. Rising, since it may be the
// state before.
void conv_state(const Conv& c, const Run& run) {
  const std::int64_t keep = c.taps - 1, rows = run.end - run.begin, n = c.x.n;
  for (std::int64_t i = 0; i < keep; ++i) {
    const std::int64_t at = i + rows;
    const float* from = at >= keep               ? c.x.row(run.begin + at - keep)
                        : run.from == nullptr ? nullptr
                                              : run.from + at * n;
    float* to = run.to + i * n;
    if (from == to) continue;
    for (std::int64_t l = c.lanes.begin; l < c.lanes.end; ++l) to[l] = from == nullptr ? 0.0f : from[l];
  }
}

template <Act A>
void conv_runs(const Conv& c, const Runs& runs) {
  const float* taps[kMaxTaps];
  const std::int64_t keep = c.taps - 1;
  Run run;
  for (std::int64_t b = 0; b < runs.count; ++b) {
    if (!runs.get(b, run)) continue;
    for (std::int64_t r = run.begin; r < run.end; ++r) {
      for (std::int64_t j = 0; j < c.taps; ++j) {
        const std::int64_t row = r - keep + j;
        taps[j] = row >= run.begin ? c.x.row(row)
                  : run.from == nullptr ? nullptr : run.from + (row - run.begin + keep) * c.x.n;
      }
      conv_row<A>(c, taps, c.y.row<float>(r));
    }
    conv_state(c, run);
  }
}

// x, y: [rows, n]; w: [k, n]; state: [k - 1, n]
void causal_conv1d(const CausalConv1d& op, const KernelArgs& a) noexcept {
  const Lines x(a.in[0]), w(a.in[1]), y(a.out[0]);
  const Conv c{x, w, y, op.bias ? static_cast<const float*>(a.in[2].data) : nullptr, a.in[1].dims[0],
               part(a, x.n, 16)};
  const Runs runs(a, op.state_at());
  switch (op.act) {
    case Act::none: return conv_runs<Act::none>(c, runs);
    case Act::silu: return conv_runs<Act::silu>(c, runs);
    case Act::gelu_tanh: return conv_runs<Act::gelu_tanh>(c, runs);
    case Act::gelu: return conv_runs<Act::gelu>(c, runs);
    case Act::relu: return conv_runs<Act::relu>(c, runs);
  }
}

// ---- selective scan ----
struct Scan {
  Lines x, dt, a, b, c, y;
  const float* d;
  bool softplus;
};

template <bool Full>
RLX_SIMD void scan_block(const Scan& s, const Run& run, std::int64_t lane, int lanes) {
  const std::int64_t states = s.a.count, n = s.x.n;
  float* h = run.to + lane;
  begin_state<Full>(run.from == nullptr ? nullptr : run.from + lane, h, states, n, lanes);
  const f32x16 skip = get<Full>(s.d + lane, lanes);
  for (std::int64_t r = run.begin; r < run.end; ++r) {
    const f32x16 x = get<Full>(s.x.row(r) + lane, lanes), raw = get<Full>(s.dt.row(r) + lane, lanes);
    const f32x16 dt = s.softplus ? softplus(raw) : raw, in = dt * x;
    const float *b = s.b.row(r), *c = s.c.row(r);
    f32x16 sum = zero_f32();
    for (std::int64_t i = 0; i < states; ++i) {
      const f32x16 decay = exp(dt * get<Full>(s.a.row(i) + lane, lanes));
      const f32x16 next = fma(set1(b[i]), in, decay * get<Full>(h + i * n, lanes));
      put<Full>(h + i * n, next, lanes);
      sum = fma(set1(c[i]), next, sum);
    }
    put<Full>(s.y.row<float>(r) + lane, fma(skip, x, sum), lanes);
  }
}

// x, dt, y: [rows, n]; a: [states, n]; b, c: [rows, states]; state: [states, n]
void selective_scan(const SelectiveScan& op, const KernelArgs& a) noexcept {
  const Scan s{Lines(a.in[0]), Lines(a.in[1]), Lines(a.in[2]),
               Lines(a.in[3]), Lines(a.in[4]), Lines(a.out[0]),
               static_cast<const float*>(a.in[5].data), op.softplus};
  const Runs runs(a, SelectiveScan::kState);
  const Range mine = part(a, s.x.n, 16);
  Run run;
  for (std::int64_t lane = mine.begin; lane < mine.end; lane += 16)
    for (std::int64_t b = 0; b < runs.count; ++b) {
      if (!runs.get(b, run)) continue;
      if (lane + 16 <= mine.end)
        scan_block<true>(s, run, lane, 16);
      else
        scan_block<false>(s, run, lane, static_cast<int>(mine.end - lane));
    }
}

// ---- Mamba-2 ----
#if defined(RLX_WIDE)
constexpr int kScanRows = 4;  // rows that pass over the state together: it is read and written once
#else
constexpr int kScanRows = 1;  // more would not fit the registers
#endif

struct Ssd {
  Lines x, b, c, y;
  const float *dt, *decay;  // [rows] of the head
  float skip;
  std::int64_t states, width, head, group;  // width: lanes of a head; head, group: numbers
};

// Row r of column h of [rows, heads], sixteen rows at a time.
RLX_SIMD f32x16 column(const Lines& v, std::int64_t r, std::int64_t h) {
  alignas(64) float t[16] = {};
  for (std::int64_t i = 0; i < 16 && r + i < v.count; ++i) t[i] = v.row(r + i)[h];
  return load(t);
}

void ssd_steps(const SsdScan& op, const KernelArgs& a, std::int64_t h, float* dt, float* decay) {
  const Lines steps(a.in[1]);
  const f32x16 rate = set1(static_cast<const float*>(a.in[2].data)[h]),
               bias = set1(static_cast<const float*>(a.in[6].data)[h]);
  for (std::int64_t r = 0; r < steps.count; r += 16) {
    f32x16 v = column(steps, r, h) + bias;
    if (op.softplus) v = softplus(v);
    v = min(set1(op.dt_max), max(set1(op.dt_min), v));  // in this order a NaN stays
    store(dt + r, v);
    store(decay + r, exp(v * rate));
  }
}

// Rows r .. r + Rows - 1 over sixteen lanes of a head's state. The sums of even and odd states are
// apart, so that one row is not a single chain of additions.
template <int Rows, bool Full>
RLX_SIMD void ssd_rows(const Ssd& s, float* state, std::int64_t r, std::int64_t lane, int lanes) {
  f32x16 x[Rows], in[Rows], even[Rows], odd[Rows];
  const float *b[Rows], *c[Rows];
  const std::int64_t at = s.head * s.width + lane;
  for (int t = 0; t < Rows; ++t) {
    x[t] = get<Full>(s.x.row(r + t) + at, lanes);
    in[t] = x[t] * set1(s.dt[r + t]);
    even[t] = odd[t] = zero_f32();
    b[t] = s.b.row(r + t) + s.group * s.states;
    c[t] = s.c.row(r + t) + s.group * s.states;
  }
  std::int64_t n = 0;
  for (; n + 2 <= s.states; n += 2) {
    float* p = state + n * s.width;
    f32x16 first = get<Full>(p, lanes), second = get<Full>(p + s.width, lanes);
    for (int t = 0; t < Rows; ++t) {
      const f32x16 decay = set1(s.decay[r + t]);
      first = fma(set1(b[t][n]), in[t], decay * first);
      even[t] = fma(set1(c[t][n]), first, even[t]);
      second = fma(set1(b[t][n + 1]), in[t], decay * second);
      odd[t] = fma(set1(c[t][n + 1]), second, odd[t]);
    }
    put<Full>(p, first, lanes);
    put<Full>(p + s.width, second, lanes);
  }
  if (n < s.states) {
    f32x16 last = get<Full>(state + n * s.width, lanes);
    for (int t = 0; t < Rows; ++t) {
      last = fma(set1(b[t][n]), in[t], set1(s.decay[r + t]) * last);
      even[t] = fma(set1(c[t][n]), last, even[t]);
    }
    put<Full>(state + n * s.width, last, lanes);
  }
  for (int t = 0; t < Rows; ++t)
    put<Full>(s.y.row<float>(r + t) + at, fma(set1(s.skip), x[t], even[t] + odd[t]), lanes);
}

template <bool Full>
void ssd_block(const Ssd& s, const Run& run, std::int64_t lane, int lanes) {
  const std::int64_t at = s.head * s.states * s.width + lane;
  float* state = run.to + at;
  begin_state<Full>(run.from == nullptr ? nullptr : run.from + at, state, s.states, s.width, lanes);
  std::int64_t r = run.begin;
  for (; r + kScanRows <= run.end; r += kScanRows) ssd_rows<kScanRows, Full>(s, state, r, lane, lanes);
  for (; r < run.end; ++r) ssd_rows<1, Full>(s, state, r, lane, lanes);
}

// x, y: [rows, heads * width]; dt: [rows, heads]; b, c: [rows, groups * states]; state: [heads, states, width]
void ssd_scan(const SsdScan& op, const KernelArgs& a) noexcept {
  const Lines x(a.in[0]), b(a.in[3]), c(a.in[4]), y(a.out[0]);
  auto* dt = reinterpret_cast<float*>(a.scratch);
  float* decay = dt + (x.count + 15) / 16 * 16;
  Ssd s{x, b, c, y, dt, decay, 0.0f, b.n / op.groups, x.n / op.heads, -1, 0};
  const Runs runs(a, SsdScan::kState);
  const std::int64_t blocks = (s.width + 15) / 16;
  const Range mine = part(a, op.heads * blocks);
  Run run;
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    if (s.head != i / blocks) {
      s.head = i / blocks;
      s.group = s.head / (op.heads / op.groups);
      s.skip = static_cast<const float*>(a.in[5].data)[s.head];
      ssd_steps(op, a, s.head, dt, decay);
    }
    const std::int64_t lane = i % blocks * 16;
    for (std::int64_t k = 0; k < runs.count; ++k) {
      if (!runs.get(k, run)) continue;
      if (lane + 16 <= s.width)
        ssd_block<true>(s, run, lane, 16);
      else
        ssd_block<false>(s, run, lane, static_cast<int>(s.width - lane));
    }
  }
}

// ---- gated delta rule ----
struct Delta {
  Lines q, k, v, y;
  const float *decay, *beta, *k_scale, *q_scale;  // [rows] of the head
  std::int64_t keys, width, head, key_head;       // width: lanes of a value head
};

// 1 / sqrt(sum of squares + eps) of the keys of sixteen rows.
RLX_SIMD f32x16 inverse_lengths(const Lines& v, std::int64_t r, std::int64_t first, std::int64_t n, float eps) {
  alignas(64) float t[16] = {};
  for (std::int64_t i = 0; i < 16 && r + i < v.count; ++i) {
    const float* p = v.row(r + i) + first;
    f32x16 squares = zero_f32();
    for (std::int64_t k = 0; k < n; k += 16) {
      const f32x16 x = load_partial(p + k, static_cast<int>(n - k < 16 ? n - k : 16));
      squares = fma(x, x, squares);
    }
    t[i] = sum(squares);
  }
  return set1(1.0f) / sqrt(load(t) + set1(eps));
}

void delta_steps(const GatedDelta& op, const KernelArgs& a, const Delta& d, float* table) {
  const Lines g(a.in[3]), beta(a.in[4]);
  const std::int64_t rows = (d.v.count + 15) / 16 * 16, first = d.key_head * d.keys;
  for (std::int64_t r = 0; r < d.v.count; r += 16) {
    store(table + r, exp(column(g, r, d.head)));
    store(table + rows + r, column(beta, r, d.head));
    const f32x16 one = set1(1.0f);
    store(table + 2 * rows + r, op.l2_norm ? inverse_lengths(d.k, r, first, d.keys, op.eps) : one);
    store(table + 3 * rows + r,
          set1(op.scale) * (op.l2_norm ? inverse_lengths(d.q, r, first, d.keys, op.eps) : one));
  }
}

// What the state holds for a key: even and odd rows are summed apart.
struct Recall {
  f32x16 even, odd;
};

template <bool Full>
RLX_SIMD Recall recall(const Delta& d, const float* state, const float* k, int lanes) {
  Recall m{zero_f32(), zero_f32()};
  for (std::int64_t i = 0; i < d.keys; ++i) {
    f32x16& sum = i % 2 == 0 ? m.even : m.odd;
    sum = fma(set1(k[i]), get<Full>(state + i * d.width, lanes), sum);
  }
  return m;
}

// Updates the state by row r and reads it with the row's query, and with the key of the next row
// (nullptr: none), so that the state is passed over once a row.
template <bool Full, bool Next>
RLX_SIMD Recall delta_row(const Delta& d, float* state, std::int64_t r, const Recall& m, std::int64_t lane, int lanes) {
  const std::int64_t first = d.key_head * d.keys, at = d.head * d.width + lane;
  const float *k = d.k.row(r) + first, *q = d.q.row(r) + first, *next = d.k.row(Next ? r + 1 : r) + first;
  const f32x16 decay = set1(d.decay[r]), k_scale = set1(d.k_scale[r]);
  const f32x16 recalled = (m.even + m.odd) * (decay * k_scale);
  const f32x16 u = set1(d.beta[r]) * (get<Full>(d.v.row(r) + at, lanes) - recalled) * k_scale;
  Recall out{zero_f32(), zero_f32()}, ahead{zero_f32(), zero_f32()};
  for (std::int64_t i = 0; i < d.keys; ++i) {
    float* p = state + i * d.width;
    const f32x16 s = fma(set1(k[i]), u, decay * get<Full>(p, lanes));
    put<Full>(p, s, lanes);
    f32x16& sum = i % 2 == 0 ? out.even : out.odd;
    sum = fma(set1(q[i]), s, sum);
    if constexpr (Next) {
      f32x16& more = i % 2 == 0 ? ahead.even : ahead.odd;
      more = fma(set1(next[i]), s, more);
    }
  }
  put<Full>(d.y.row<float>(r) + at, (out.even + out.odd) * set1(d.q_scale[r]), lanes);
  return ahead;
}

template <bool Full>
void delta_block(const Delta& d, const Run& run, std::int64_t lane, int lanes) {
  const std::int64_t at = d.head * d.keys * d.width + lane;
  float* state = run.to + at;
  begin_state<Full>(run.from == nullptr ? nullptr : run.from + at, state, d.keys, d.width, lanes);
  if (run.begin == run.end) return;
  Recall m = recall<Full>(d, state, d.k.row(run.begin) + d.key_head * d.keys, lanes);
  for (std::int64_t r = run.begin; r + 1 < run.end; ++r) m = delta_row<Full, true>(d, state, r, m, lane, lanes);
  delta_row<Full, false>(d, state, run.end - 1, m, lane, lanes);
}

// q, k: [rows, key_heads * keys]; v, y: [rows, heads * width]; g, beta: [rows, heads]; state: [heads, keys, width]
void gated_delta(const GatedDelta& op, const KernelArgs& a) noexcept {
  const Lines q(a.in[0]), k(a.in[1]), v(a.in[2]), y(a.out[0]);
  auto* table = reinterpret_cast<float*>(a.scratch);
  const std::int64_t rows = (v.count + 15) / 16 * 16;
  Delta d{q, k, v, y, table, table + rows, table + 2 * rows, table + 3 * rows, q.n / op.key_heads, v.n / op.heads,
          -1, 0};
  const Runs runs(a, GatedDelta::kState);
  const std::int64_t blocks = (d.width + 15) / 16;
  const Range mine = part(a, op.heads * blocks);
  Run run;
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    if (d.head != i / blocks) {
      d.head = i / blocks;
      d.key_head = d.head / (op.heads / op.key_heads);
      delta_steps(op, a, d, table);
    }
    const std::int64_t lane = i % blocks * 16;
    for (std::int64_t b = 0; b < runs.count; ++b) {
      if (!runs.get(b, run)) continue;
      if (lane + 16 <= d.width)
        delta_block<true>(d, run, lane, 16);
      else
        delta_block<false>(d, run, lane, static_cast<int>(d.width - lane));
    }
  }
}

constexpr Kernel kTable[] = {
    kernel<CausalConv1d, causal_conv1d>(RLX_ROW_NAME("causal_conv1d_f32"), Isa::RLX_ISA_LEVEL, accepts_causal_conv1d),
    kernel<SelectiveScan, selective_scan>(RLX_ROW_NAME("selective_scan_f32"), Isa::RLX_ISA_LEVEL, accepts_recurrent),
    kernel<SsdScan, ssd_scan>(RLX_ROW_NAME("ssd_scan_f32"), Isa::RLX_ISA_LEVEL, accepts_recurrent, ssd_scan_scratch),
    kernel<GatedDelta, gated_delta>(RLX_ROW_NAME("gated_delta_f32"), Isa::RLX_ISA_LEVEL, accepts_recurrent,
                                    gated_delta_scratch),
};

}  // namespace

KernelTable recurrent_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
