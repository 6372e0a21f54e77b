// A kernel row run on the values of a sample, with its operands laid out as a session lays them out: packed weights,
// pages of a cache, slots of recurrent states, padded rows. The conformance test and `rlx bench kernels` run rows so.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/workers.h"
#include "device/backend.h"
#include "ir/sample.h"
#include "tensor/tensor.h"

namespace rlx {

/// How the operands of a run lie in memory.
struct Arrangement {
  bool packed_weights = false;  ///< weights of products in panels (Layout::p16)
  bool padded_rows = false;  ///< rows of f32 matrices 12 bytes apart from each other, 4 bytes off alignment
  bool in_place = false;  ///< result 0 lies where the operand lies that the op names
};

/// One row on one sample. The row, the sample and the values (materialize()) must outlive it.
class KernelRun {
 public:
  /// Errors: those of infer(), for a sample that the op does not take.
  KernelRun(const Backend& backend, const Kernel& row, const Sample& sample, std::span<const Tensor> values,
            Arrangement how);
  KernelRun(const KernelRun&) = delete;  // views point into it

  /// Whether dispatch may take the row for this sample in this arrangement.
  bool accepted() const;
  /// Whether the op lets result 0 lie in the place of an operand, and this sample has one of its shape.
  bool can_be_in_place() const;

  /// Makes operands, results and scratch for a call by that many threads. What a kernel leaves out of a result shows
  /// as NaN.
  void prepare(int threads);
  /// Runs the row; the threads are those of prepare(). Again, it works on what the call before left in states.
  void call(Workers& workers);
  /// The results, decoded to floats; states as run_sample() gives them.
  std::vector<std::vector<float>> results() const;

 private:
  struct Buffer {
    std::vector<std::byte> bytes;
    std::byte* at = nullptr;
  };
  Shape laid_out(std::size_t operand) const;
  std::size_t operand_of(bool (*is)(const Shape&)) const;
  Buffer& buffer(std::int64_t bytes, std::int64_t misalign = 0);
  bool padded(const Shape& s) const;
  TensorView operand(std::size_t i);
  void pack(TensorView& v, const Shape& s, const Tensor& value);
  void place(TensorView& v, const Shape& s);
  TensorView result(const Shape& s);
  void import_cache(const Shape& s, const Tensor& content);
  std::vector<float> export_cache() const;
  template <typename F>
  void each_token(F&& f) const;

  const Backend& backend_;
  const Kernel& row_;
  const Sample& sample_;
  std::span<const Tensor> values_;
  Arrangement how_;
  std::vector<Shape> in_shapes_, out_shapes_;
  std::size_t state_ = 0, pages_ = 0;  // operands; 0 when there is none
  std::vector<std::unique_ptr<Buffer>> storage_;
  std::vector<TensorView> in_, out_;
  std::vector<std::byte*> scratch_;  // of each thread
  std::byte* shared_ = nullptr;
  std::int64_t shared_zeroed_ = 0;
  KvPool pool_{};
  std::int64_t heads_ = 0, dim_ = 0;
  DType kv_dtype_ = DType::f32;
};

}  // namespace rlx
