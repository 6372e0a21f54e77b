// Results of `rlx bench` as llama-bench prints them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/bench.h"

namespace rlx::cli {

enum class BenchFormat : std::uint8_t { md, json, jsonl, csv };

class BenchReport {
 public:
  explicit BenchReport(BenchFormat format) : format_(format) {}
  void add(const Decoder& decoder, const BenchResult& result,
           const std::vector<KernelTime>& kernels);
  void finish();

 private:
  void add_row(const Decoder& decoder, const BenchResult& result);

  BenchFormat format_;
  int count_ = 0;
};

/// All keys of one result: those of llama-bench, then our own.
nlohmann::ordered_json bench_json(const Decoder& decoder, const BenchResult& result,
                                  const std::vector<KernelTime>& kernels);

}  // namespace rlx::cli
