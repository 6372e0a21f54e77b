// Speed of the matrix products on this machine. Decode (one token): bytes of weights per second and
// their ratio to a plain read of memory by the same threads in the same run (kernels.md, 1.1).
// Prompt (many tokens): multiply-adds per second. Not part of the default build. Usage:
// matmul_bench [threads] [level] [part of a type's name]
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/matmul.h"
#include "backends/cpu/pack.h"
#include "base/cpu_features.h"
#include "ops/matmul.h"

namespace {

using namespace rlx;
using Clock = std::chrono::steady_clock;

double seconds(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

/// Runs work(thread) on all threads `repeats` times after a common start; the best time of one
/// round.
double best_time(int threads, int repeats, const std::function<void(int)>& work) {
  double best = 1e9;
  for (int i = 0; i < repeats; ++i) {
    std::vector<std::thread> others;
    const auto start = Clock::now();
    for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
    work(0);
    for (std::thread& t : others) t.join();
    best = std::min(best, seconds(start));
  }
  return best;
}

struct Buffer {
  explicit Buffer(std::int64_t bytes)
      : data(static_cast<std::byte*>(
            std::aligned_alloc(4096, static_cast<std::size_t>((bytes + 8191) / 4096 * 4096)))),
        size(bytes) {
    std::memset(data, 0x3c,
                static_cast<std::size_t>(
                    bytes));  // near 1 in f16, 0.01 in f32 and bf16: no subnormal numbers
  }
  ~Buffer() { std::free(data); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data;
  std::int64_t size;
};

double probe(const Buffer& b, int threads) {
  std::vector<std::int64_t> sums(static_cast<std::size_t>(threads) * 8);
  const std::int64_t part = b.size / threads / 256 * 256;
  return best_time(threads, 6, [&](int t) {
    const std::byte* p = b.data + t * part;
    __m128i s[4] = {};
    for (std::int64_t i = 0; i < part / 4; i += 64)
      for (int stream = 0; stream < 4; ++stream)
        for (int j = 0; j < 64; j += 16)
          s[j / 16] = _mm_xor_si128(s[j / 16], _mm_load_si128(reinterpret_cast<const __m128i*>(
                                                   p + stream * (part / 4 / 64 * 64) + i + j)));
    sums[static_cast<std::size_t>(t) * 8] =
        _mm_cvtsi128_si32(_mm_xor_si128(_mm_xor_si128(s[0], s[1]), _mm_xor_si128(s[2], s[3])));
  });
}

struct Problem {
  Problem(DType xt, DType wt, std::int64_t m, std::int64_t n, std::int64_t k)
      : weights(cpu::packed_bytes(wt, n, k)), tokens(m * row_bytes(xt, k)), result(m * n * 4) {
    in[0] = view(tokens.data, xt, m, k, row_bytes(xt, k));
    in[1] = view(weights.data, wt, n, k, 0);
    in[1].layout = Layout::p16;
    out = view(result.data, DType::f32, m, n, n * 4);
  }
  static TensorView view(void* data, DType d, std::int64_t rows, std::int64_t columns,
                         std::int64_t stride) {
    TensorView v;
    v.data = data, v.dtype = d, v.rank = 2;
    v.dims[0] = rows, v.dims[1] = columns, v.strides[0] = stride,
    v.strides[1] = info(d).block_bytes;
    return v;
  }
  double run(const Kernel& row, int threads, int repeats) {
    const Linear op{};
    const auto need = row.scratch({&op, in, &out, threads, 0});
    std::vector<std::unique_ptr<Buffer>> scratch;
    for (int t = 0; t < threads; ++t) scratch.push_back(std::make_unique<Buffer>(need.per_worker));
    return best_time(threads, repeats, [&](int t) {
      KernelArgs a;
      a.in = in, a.out = &out, a.inputs = 2, a.outputs = 1, a.thread = t, a.threads = threads;
      a.scratch = scratch[static_cast<std::size_t>(t)]->data;
      row.run(&op, a);
    });
  }
  Buffer weights, tokens, result;
  TensorView in[2], out;
};

const Kernel* find(const cpu::KernelTable& table, DType x, DType w) {
  const std::string part = "linear_" + std::string(name(x)) + "_" + std::string(name(w)) + "_";
  for (int i = 0; i < table.count; ++i)
    if (table.rows[i].name.substr(0, part.size()) == part) return &table.rows[i];
  return nullptr;
}

void pack_speed(DType d) {
  const std::int64_t n = 4096, k = 4096;
  const Buffer source(n * row_bytes(d, k)), out(cpu::packed_bytes(d, n, k));
  const double s = best_time(1, 3, [&](int) {
    cpu::pack_panels({source.data, d, n, k}, d, 0, n / 16, out.data);
  });
  std::printf("  pack %-6s %5.2f GB/s\n", std::string(name(d)).c_str(),
              static_cast<double>(source.size) / s / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const std::string level = argc > 2 ? argv[2] : "avx2", part = argc > 3 ? argv[3] : "";
  const cpu::KernelTable table = level == "baseline"      ? cpu::baseline::matmul_kernels()
                                 : level == "avx512"      ? cpu::avx512::matmul_kernels()
                                 : level == "avx512_bf16" ? cpu::avx512_bf16::matmul_kernels()
                                                          : cpu::avx2::matmul_kernels();
  std::printf("%s, %s, %d threads\n", cpu_features().model.c_str(), level.c_str(), threads);
  const Buffer memory(256 << 20);
  std::vector<std::pair<DType, DType>> pairs = {
      {DType::f32, DType::f32},   {DType::f32, DType::f16},  {DType::f32, DType::bf16},
      {DType::bf16, DType::bf16}, {DType::f32, DType::q4_1}, {DType::f32, DType::q6_K}};
  for (const DType d :
       {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::iq4_nl, DType::q2_K,
        DType::q3_K, DType::q4_K, DType::q5_K, DType::q6_K}) {
    if (name(d).find(part) == std::string_view::npos) continue;
    pairs.push_back({DType::xq8, d});
    if (!std::getenv("PACK")) pack_speed(d);
  }
  for (const auto& [x, w] : pairs) {
    const Kernel* row = find(table, x, w);
    if (!row || name(w).find(part) == std::string_view::npos) continue;
    // Big enough to come from memory: 64 MB or so.
    const std::int64_t k = 4096, n = (64 << 20) / row_bytes(w, k) / 64 * 64;
    const double raw = static_cast<double>(memory.size) / probe(memory, threads) / 1e9;
    std::printf("%-4s x %-6s decode:", std::string(name(x)).c_str(), std::string(name(w)).c_str());
    for (const std::int64_t m : {1, 2, 4}) {
      Problem p(x, w, m, n, k);
      const double rate = static_cast<double>(p.weights.size) / p.run(*row, threads, 6) / 1e9;
      std::printf("  %lld: %5.1f GB/s (%3.0f %%)", static_cast<long long>(m), rate,
                  100 * rate / raw);
    }
    std::printf("  raw %.1f\n", raw);
    std::printf("     GMAC/s:");
    struct Shape {
      std::int64_t m, n, k;
    };
    for (const Shape s : {Shape{512, 576, 576}, Shape{512, 1536, 576}, Shape{512, 576, 1536},
                          Shape{512, 2048, 2048}, Shape{16, 2048, 2048}}) {
      if (s.k % info(w).block_elements != 0) continue;
      Problem p(x, w, s.m, s.n, s.k);
      const double t = p.run(*row, threads, s.n > 2000 ? 4 : 12);
      std::printf("  %lldx%lldx%lld %.0f", static_cast<long long>(s.m), static_cast<long long>(s.n),
                  static_cast<long long>(s.k), static_cast<double>(s.m * s.n * s.k) / t / 1e9);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}
