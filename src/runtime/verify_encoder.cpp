#include "runtime/verify_encoder.h"

#include <fmt/ranges.h>

#include "base/error.h"

namespace rlx {
namespace {

using PaddedSizes = std::vector<std::int64_t>;

/// A batch of a case without its padding: per sequence the ids, and the columns that they stood in.
struct UnpaddedBatch {
  std::vector<std::vector<std::int32_t>> ids, types, columns;
  std::int64_t length = 0;  ///< of the padded rows

  std::vector<TokenSequence> sequences() const {
    std::vector<TokenSequence> list;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      list.push_back({ids[i], {}});
      if (!types.empty()) list.back().token_types = types[i];
    }
    return list;
  }
};

class EncoderChecker {
 public:
  EncoderChecker(EncoderModel& model, const ReferenceTensors& tensors, GoldenComparison& comparison)
      : model_(model), tensors_(tensors), comparison_(comparison) {}

  void tokens(const std::string& stem) {
    const UnpaddedBatch batch = read_batch(stem);
    const std::vector<TokenSequence> sequences = batch.sequences();
    const Values expected = read(stem + ".last_hidden_state", hidden_sizes(batch));
    const HiddenRows together = model_.run(sequences);
    hidden(stem, together, batch, expected);
    if (together.pooled && tensors_.has(stem + ".pooler_output"))
      comparison_.compare(stem + " pooled", together.pooled->as<float>(),
                          read(stem + ".pooler_output", {together.batch(), model_.info().hidden}).values);
    for (std::size_t i = 0; i < sequences.size() && sequences.size() > 1; ++i) {
      const HiddenRows alone = model_.run({&sequences[i], 1});
      rows(fmt::format("{}, sequence {} alone", stem, i), alone.sequence(0), batch.columns[i],
           expected.row(static_cast<std::int64_t>(i)));
    }
  }

  void images(const std::string& stem) {
    const ModelInfo& info = model_.info();
    const std::string name = stem + ".pixel_values";
    const PaddedSizes sizes = tensors_.find(name, 4).shape;
    const HiddenRows found = model_.run_images(Tensor::from(sizes, tensors_.floats(name, 4)));
    const std::vector<float> expected =
        info.image_rows > 0 ? read(stem + ".last_hidden_state", {sizes[0], info.image_rows, info.hidden}).values
                            : feature_map(stem + ".last_hidden_state", found);
    comparison_.compare(stem, found.rows.as<float>(), expected);
    if (found.pooled && tensors_.has(stem + ".pooler_output"))
      comparison_.compare(stem + " pooled", found.pooled->as<float>(), pooled_map(stem + ".pooler_output", sizes[0]));
  }

  void targets(const std::string& stem) {
    const UnpaddedBatch source = read_batch(stem);
    const HiddenRows encoded = model_.run(source.sequences());
    if (tensors_.has(stem + ".encoder_last_hidden_state"))
      hidden(stem + " encoder", encoded, source, read(stem + ".encoder_last_hidden_state", hidden_sizes(source)));
    UnpaddedBatch target = unpad(stem + ".decoder_input_ids", stem + ".decoder_attention_mask");
    const std::vector<TokenSequence> sequences = target.sequences();
    const Tensor logits = model_.decode(encoded, sequences);
    const std::int64_t vocab = model_.info().vocab;
    const Values expected = read(stem + ".logits", {static_cast<std::int64_t>(sequences.size()), target.length, vocab});
    std::size_t at = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const std::size_t size = sequences[i].tokens.size() * static_cast<std::size_t>(vocab);
      rows(stem, logits.as<float>().subspan(at, size), target.columns[i], expected.row(static_cast<std::int64_t>(i)));
      at += size;
    }
  }

 private:
  /// A tensor [batch, rows, columns] (or [batch, columns]) of the reference.
  struct Values {
    std::vector<float> values;
    PaddedSizes sizes;
    /// All values of sequence i; their last axis has sizes.back() values.
    std::span<const float> row(std::int64_t i) const {
      const std::size_t n = values.size() / static_cast<std::size_t>(sizes[0]);
      return std::span<const float>(values).subspan(static_cast<std::size_t>(i) * n, n);
    }
  };

  Values read(const std::string& name, const PaddedSizes& sizes) const {
    const PaddedSizes& found = tensors_.find(name, sizes.size()).shape;
    if (found != sizes)
      fail(ErrorCode::shape, "{}: {}: expected [{}], found [{}]", tensors_.path(), name, fmt::join(sizes, ", "),
           fmt::join(found, ", "));
    return {tensors_.floats(name, sizes.size()), sizes};
  }

  /// A reference [batch, hidden, height, width] as rows of its places.
  std::vector<float> feature_map(const std::string& name, const HiddenRows& rows) const {
    const PaddedSizes sizes = tensors_.find(name, 4).shape;
    const std::int64_t n = model_.info().hidden, places = rows.rows.dims()[0] / rows.batch();
    if (sizes[0] != rows.batch() || sizes[1] != n || sizes[2] * sizes[3] != places)
      fail(ErrorCode::shape, "{}: {}: expected [{}, {}, height, width] of {} places, found [{}]", tensors_.path(), name,
           rows.batch(), n, places, fmt::join(sizes, ", "));
    const std::vector<float> map = tensors_.floats(name, 4);
    std::vector<float> out(map.size());
    std::size_t at = 0;
    for (std::int64_t b = 0; b < sizes[0]; ++b)
      for (std::int64_t c = 0; c < n; ++c)
        for (std::int64_t p = 0; p < places; ++p) out[static_cast<std::size_t>((b * places + p) * n + c)] = map[at++];
    return out;
  }

  /// [batch, hidden], or [batch, hidden, 1, 1] as convolutional models write it.
  std::vector<float> pooled_map(const std::string& name, std::int64_t batch) const {
    if (model_.info().image_rows > 0) return read(name, {batch, model_.info().hidden}).values;
    return read(name, {batch, model_.info().hidden, 1, 1}).values;
  }

  PaddedSizes hidden_sizes(const UnpaddedBatch& batch) const {
    return {static_cast<std::int64_t>(batch.ids.size()), batch.length, model_.info().hidden};
  }

  std::vector<std::int32_t> beside(const std::string& name, const PaddedSizes& sizes) const {
    if (tensors_.find(name, 2).shape != sizes)
      fail(ErrorCode::shape, "{}: {}: expected [{}], as the ids have", tensors_.path(), name, fmt::join(sizes, ", "));
    return tensors_.ids(name, 2);
  }

  UnpaddedBatch unpad(const std::string& name, const std::string& mask_name) const {
    const PaddedSizes sizes = tensors_.find(name, 2).shape;
    if (sizes[0] < 1 || sizes[1] < 1)
      fail(ErrorCode::format, "{}: {}: expected at least one token", tensors_.path(), name);
    const std::vector<std::int32_t> ids = tensors_.ids(name, 2);
    std::vector<std::int32_t> mask(ids.size(), 1);
    if (tensors_.has(mask_name)) mask = beside(mask_name, sizes);
    UnpaddedBatch batch;
    batch.length = sizes[1];
    for (std::int64_t b = 0; b < sizes[0]; ++b) {
      batch.ids.emplace_back();
      batch.columns.emplace_back();
      for (std::int64_t i = 0; i < sizes[1]; ++i) {
        const auto at = static_cast<std::size_t>(b * sizes[1] + i);
        if (mask[at] == 0) continue;
        batch.ids.back().push_back(ids[at]);
        batch.columns.back().push_back(static_cast<std::int32_t>(i));
      }
    }
    return batch;
  }

  UnpaddedBatch read_batch(const std::string& stem) const {
    UnpaddedBatch batch = unpad(stem + ".input_ids", stem + ".attention_mask");
    const std::string name = stem + ".token_type_ids";
    if (!tensors_.has(name)) return batch;
    const std::vector<std::int32_t> types = beside(name, {static_cast<std::int64_t>(batch.ids.size()), batch.length});
    for (std::size_t b = 0; b < batch.ids.size(); ++b) {
      batch.types.emplace_back();
      for (const std::int32_t column : batch.columns[b])
        batch.types.back().push_back(
            types[b * static_cast<std::size_t>(batch.length) + static_cast<std::size_t>(column)]);
    }
    return batch;
  }

  /// The rows of one sequence against the padded rows of the reference.
  void rows(const std::string& label, std::span<const float> found, const std::vector<std::int32_t>& columns,
            std::span<const float> expected) {
    if (columns.empty()) return;
    const std::size_t n = found.size() / columns.size();
    const float scale = GoldenComparison::scale_of(expected);
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (!comparison_.compare(label, found.subspan(i * n, n),
                               expected.subspan(static_cast<std::size_t>(columns[i]) * n, n), scale))
        return;
  }

  void hidden(const std::string& label, const HiddenRows& found, const UnpaddedBatch& batch, const Values& expected) {
    for (std::int64_t i = 0; i < found.batch(); ++i)
      rows(label, found.sequence(i), batch.columns[static_cast<std::size_t>(i)], expected.row(i));
  }

  EncoderModel& model_;
  const ReferenceTensors& tensors_;
  GoldenComparison& comparison_;
};

}  // namespace

void check_encoder_cases(EncoderModel& model, const ReferenceTensors& tensors, GoldenComparison& comparison) {
  const ModelKind kind = model.info().kind;
  const std::string_view wanted = kind == ModelKind::seq2seq  ? ".decoder_input_ids"
                                  : kind == ModelKind::vision ? ".pixel_values"
                                                              : ".input_ids";
  const std::vector<std::string> stems = tensors.stems(wanted);
  if (stems.empty())
    fail(ErrorCode::format, "{}: expected tensors NAME{} of a {} model, found none", tensors.path(), wanted,
         name(kind));
  EncoderChecker checker(model, tensors, comparison);
  for (const std::string& stem : stems) {
    if (kind == ModelKind::seq2seq)
      checker.targets(stem);
    else if (kind == ModelKind::vision)
      checker.images(stem);
    else
      checker.tokens(stem);
  }
}

}  // namespace rlx
