// Results of `rlx bench` as llama-bench prints them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/bench.h"

namespace rlx::cli {

enum class BenchFormat : std::uint8_t { md, json, jsonl, csv };

/// What results belong to.
struct BenchSubject {
  const LoadedModel& model;
  Device device;
  int threads = 0;
  std::int64_t chunk = 0;  ///< of a decoder, else 0
  std::string kv;          ///< type of the cache; empty: none

  static BenchSubject of(const Decoder& decoder);
  static BenchSubject of(const EncoderModel& model);
};

class BenchReport {
 public:
  explicit BenchReport(BenchFormat format) : format_(format) {}
  void add(const BenchSubject& subject, const BenchResult& result, const std::vector<KernelTime>& kernels);
  void finish();

 private:
  void add_row(const BenchSubject& subject, const BenchResult& result);

  BenchFormat format_;
  int count_ = 0;
};

/// All keys of one result: those of llama-bench, then our own.
nlohmann::ordered_json bench_json(const BenchSubject& subject, const BenchResult& result,
                                  const std::vector<KernelTime>& kernels);

}  // namespace rlx::cli
