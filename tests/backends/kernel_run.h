// What the kernel tests share: operands with their memory, rows of the table that run on this
// machine, and a run by several workers.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/kernels.h"
#include "tensor/shape.h"

namespace rlx::cpu {

using Floats = std::vector<float>;

inline Floats normal(std::size_t n, unsigned seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> values(0.0f, scale);
  Floats v(n);
  for (float& x : v) x = values(random);
  return v;
}

inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

/// A plain contiguous view of someone else's memory.
inline TensorView view(void* data, std::vector<std::int64_t> dims, DType dtype = DType::f32) {
  TensorView v;
  v.data = data;
  v.dtype = dtype;
  v.rank = static_cast<std::int8_t>(dims.size());
  std::int64_t stride = dims.empty() ? 0 : row_bytes(dtype, dims.back());
  for (int i = v.rank - 1; i >= 0; --i) {
    v.dims[i] = dims[static_cast<std::size_t>(i)];
    v.strides[i] = i == v.rank - 1 ? info(dtype).block_bytes : stride;
    if (i != v.rank - 1) stride *= v.dims[i];
  }
  return v;
}
inline TensorView view(Floats& data, std::vector<std::int64_t> dims) { return view(data.data(), std::move(dims)); }
inline TensorView view(std::vector<std::int32_t>& data, std::vector<std::int64_t> dims) {
  return view(data.data(), std::move(dims), DType::i32);
}

/// The rows of an op whose name holds `part` and whose level this machine has, best first.
inline std::vector<Kernel> rows(std::string_view op, std::string_view part = "") {
  std::vector<Kernel> found;
  for (const Kernel& k : cpu_kernels())
    if (k.op == op && k.isa <= isa_of(cpu_features()) &&
        k.name.find(part) != std::string_view::npos) found.push_back(k);
  EXPECT_FALSE(found.empty()) << op << " " << part;
  return found;
}

/// How a call is run: by real threads, or one worker after the other (the harder order for shared counters).
struct Workers {
  int threads = 1;
  bool together = false;
};

class Bytes {  // 64-byte aligned
 public:
  explicit Bytes(std::int64_t n) : data_(static_cast<std::size_t>(n) + 64) {}
  std::byte* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(data_.data());
    return data_.data() + (64 - address % 64) % 64;
  }

 private:
  std::vector<std::byte> data_;
};

inline void run(const Kernel& k, const void* op, const std::vector<TensorView>& in, const std::vector<TensorView>& out,
                Workers workers = {}, std::int64_t max_context = 4096) {
  ScratchNeed need;
  if (k.scratch != nullptr) need = k.scratch({op, in.data(), out.data(), workers.threads, max_context});
  Bytes shared(need.shared);
  std::memset(shared.data(), 0xff, static_cast<std::size_t>(need.shared));
  std::memset(shared.data(), 0, static_cast<std::size_t>(need.shared_zeroed));
  const auto work = [&](int thread) {
    Bytes scratch(need.per_worker);
    std::memset(scratch.data(), 0xff, static_cast<std::size_t>(need.per_worker));
    KernelArgs a;
    a.in = in.data();
    a.out = out.data();
    a.inputs = static_cast<int>(in.size());
    a.outputs = static_cast<int>(out.size());
    a.thread = thread;
    a.threads = workers.threads;
    a.scratch = scratch.data();
    a.shared = shared.data();
    k.run(op, a);
  };
  if (!workers.together) {
    for (int t = 0; t < workers.threads; ++t) work(t);
    return;
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < workers.threads; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
}

}  // namespace rlx::cpu
