#include "backends/cpu/pack.h"

#include <algorithm>
#include <string>
#include <vector>

#include "backends/cpu/pack_blocks.h"
#include "base/error.h"
#include "tensor/quant/code_book.h"
#include "tensor/quant/codec.h"

namespace rlx::cpu {
namespace {

bool has_panels(DType d) { return panel_bytes(d, 256) > 0; }
bool small_float(DType d) { return d == DType::f32 || d == DType::f16 || d == DType::bf16; }

/// Rows of blocks: row r of the panel begins at data + r * stride; rows beyond `rows` are zero.
struct PanelRows {
  const std::byte* data;
  std::int64_t stride;
  int rows;
  std::int64_t k;
};

void put_half(std::byte* at, std::uint16_t bits) { std::memcpy(at, &bits, 2); }

/// Lines of 16 rows x 4 bytes from rows of `words` 32-bit words (f32 values, or pairs of 16-bit
/// ones).
void transpose_words(const PanelRows& in, std::int64_t words, std::byte* out) {
  std::int64_t w = 0;
  for (; w + 4 <= words; w += 4)
    for (int r = 0; r < kPanelRows; r += 4) {
      __m128i v[4];
      for (int i = 0; i < 4; ++i)
        v[i] = r + i < in.rows ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(
                                     in.data + (r + i) * in.stride + w * 4))
                               : _mm_setzero_si128();
      const __m128i a = _mm_unpacklo_epi32(v[0], v[1]), b = _mm_unpackhi_epi32(v[0], v[1]);
      const __m128i c = _mm_unpacklo_epi32(v[2], v[3]), d = _mm_unpackhi_epi32(v[2], v[3]);
      const __m128i lines[4] = {_mm_unpacklo_epi64(a, c), _mm_unpackhi_epi64(a, c),
                                _mm_unpacklo_epi64(b, d), _mm_unpackhi_epi64(b, d)};
      for (int i = 0; i < 4; ++i)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + (w + i) * kLineBytes + r * 4), lines[i]);
    }
  for (; w < words; ++w)
    for (int r = 0; r < kPanelRows; ++r) {
      std::uint32_t word = 0;
      if (r < in.rows) std::memcpy(&word, in.data + r * in.stride + w * 4, 4);
      std::memcpy(out + w * kLineBytes + r * 4, &word, 4);
    }
}

/// The scales of one block of one row.
template <DType D>
void put_scales(const Integers& v, std::byte* group, int block, int row) {
  constexpr PanelInfo p = panel_info(D);
  if constexpr (!p.is_super()) {
    put_half(group + (block * kPanelRows + row) * 2, v.d);
    if constexpr (p.has_min) put_half(group + kLineBytes + (block * kPanelRows + row) * 2, v.m);
  } else {
    put_half(group + row * 2, v.d);
    if constexpr (p.has_min) put_half(group + (kPanelRows + row) * 2, v.m);
    if constexpr (D == DType::tq2_0) return;
    for (int s = 0; s < 256 / p.sub; ++s) {
      group[kScaleTable + s * kPanelRows + row] = static_cast<std::byte>(v.table[0][s]);
      if constexpr (p.has_min && p.sub == 32)
        group[kMinTable + s * kPanelRows + row] = static_cast<std::byte>(v.table[1][s]);
    }
  }
}

/// A group of one row: its scales go to the panel, the four bytes of each line to `words`.
template <DType D, typename Block>
void read_group(const std::byte* source, int blocks, std::byte* group, int row,
                std::uint32_t* words) {
  constexpr PanelInfo p = panel_info(D);
  constexpr int parts = p.is_super() ? p.blocks() : 1, words_of_part = p.block / kLineBytes;
  Integers v;
  for (int b = 0; b < blocks; ++b, source += sizeof(Block)) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(source);
    if constexpr (!p.is_super() && (p.bits == 4 || p.bits == 8)) {
      // The bytes of these files are in the order of the lines already.
      for (int i = 0; i < words_of_part; i += 4)
        store16(reinterpret_cast<std::uint8_t*>(words + i), load16(RLX_FIELD(Block, q) + i * 4));
      if constexpr (D == DType::mxfp4)
        v.d = mxfp4_scale(*RLX_FIELD(Block, e));
      else
        v.d = half_at(RLX_FIELD(Block, d));
      if constexpr (p.has_min) v.m = half_at(RLX_FIELD(Block, m));
    } else {
      expand_block<Block>(at, v);
      for (int i = 0; i < parts; ++i) line_words<D>(v.q + i * kBlock, words + i * words_of_part);
    }
    put_scales<D>(v, group, b, row);
    words += parts * words_of_part;
  }
}

template <DType D, typename Block>
void pack_blocks(const PanelRows& in, std::byte* out) {
  constexpr PanelInfo p = panel_info(D);
  constexpr int k_of_block = p.is_super() ? 256 : kBlock;
  constexpr int per_group = p.group / k_of_block;  // blocks of the file in a group
  constexpr int most = p.block / kLineBytes * p.blocks();
  alignas(16) std::uint32_t words[kPanelRows][most] = {};
  const std::int64_t blocks = in.k / k_of_block;
  for (std::int64_t first = 0; first < blocks; first += per_group, out += p.group_bytes()) {
    std::memset(out, 0, p.header);
    const int count = static_cast<int>(std::min<std::int64_t>(per_group, blocks - first));
    for (int row = 0; row < in.rows; ++row)
      read_group<D, Block>(
          in.data + row * in.stride + first * static_cast<std::int64_t>(sizeof(Block)), count, out,
          row, words[row]);
    const PanelRows lines{reinterpret_cast<const std::byte*>(words), most * 4, kPanelRows, 0};
    transpose_words(lines, most / per_group * count, out + p.header);
  }
}

/// Types with a code book: the codes of the panel are those of CodedBlock.
template <DType D>
void pack_coded(const CodeBook& book, const PanelRows& in, std::byte* out) {
  constexpr PanelInfo p = panel_info(D);
  constexpr int words_of_block = p.block / kLineBytes, all = words_of_block * p.blocks();
  alignas(16) std::uint32_t words[kPanelRows][all] = {};
  CodedBlock block;
  for (std::int64_t i = 0; i < in.k / 256; ++i, out += p.group_bytes()) {
    std::memset(out, 0, p.header);
    std::memcpy(out + kStepTable, book.steps, sizeof book.steps);
    std::memcpy(out + kFactor, &book.factor, sizeof book.factor);
    for (int row = 0; row < in.rows; ++row) {
      book.expand(in.data + row * in.stride + i * book.block_bytes, block);
      put_half(out + row * 2, block.d);
      for (int s = 0; s < 256 / p.sub; ++s)
        out[kScaleTable + s * kPanelRows + row] = static_cast<std::byte>(block.scale[s]);
      for (int b = 0; b < p.blocks(); ++b) line_words<D>(block.code + b * kBlock, words[row] + b * words_of_block);
    }
    transpose_words({reinterpret_cast<const std::byte*>(words), all * 4, kPanelRows, 0}, all, out + p.header);
  }
}

void pack_same(DType d, const PanelRows& in, std::byte* out) {
  if (const CodeBook* book = code_book(d))
    return panel_form(d) == DType::iq2_xs ? pack_coded<DType::iq2_xs>(*book, in, out)
                                          : pack_coded<DType::iq4_xs>(*book, in, out);
  switch (d) {
    case DType::q4_0:
      return pack_blocks<DType::q4_0, BlockQ4_0>(in, out);
    case DType::q4_1:
      return pack_blocks<DType::q4_1, BlockQ4_1>(in, out);
    case DType::q5_0:
      return pack_blocks<DType::q5_0, BlockQ5_0>(in, out);
    case DType::q5_1:
      return pack_blocks<DType::q5_1, BlockQ5_1>(in, out);
    case DType::q8_0:
      return pack_blocks<DType::q8_0, BlockQ8_0>(in, out);
    case DType::iq4_nl:
      return pack_blocks<DType::iq4_nl, BlockIq4Nl>(in, out);
    case DType::q2_K:
      return pack_blocks<DType::q2_K, BlockQ2K>(in, out);
    case DType::q3_K:
      return pack_blocks<DType::q3_K, BlockQ3K>(in, out);
    case DType::q4_K:
      return pack_blocks<DType::q4_K, BlockQ4K>(in, out);
    case DType::q5_K:
      return pack_blocks<DType::q5_K, BlockQ5K>(in, out);
    case DType::q6_K:
      return pack_blocks<DType::q6_K, BlockQ6K>(in, out);
    case DType::tq1_0:
      return pack_blocks<DType::tq2_0, BlockTq1_0>(in, out);
    case DType::tq2_0:
      return pack_blocks<DType::tq2_0, BlockTq2_0>(in, out);
    case DType::mxfp4:
      return pack_blocks<DType::mxfp4, BlockMxfp4>(in, out);
    default:
      RLX_CHECK(false, std::string(name(d)));
  }
}

/// Turns lines of pairs [16][2] into two rows [16] of 16-bit values.
void split_pairs(std::byte* lines, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    auto* at = reinterpret_cast<__m128i*>(lines + i * kLineBytes);
    __m128i v[4], low[4];
    for (int j = 0; j < 4; ++j) {
      v[j] = _mm_loadu_si128(at + j);
      low[j] = _mm_and_si128(v[j], _mm_set1_epi32(0xffff));
      v[j] = _mm_srli_epi32(v[j], 16);
    }
    for (int j = 0; j < 2; ++j) {
      _mm_storeu_si128(at + j, _mm_packus_epi32(low[2 * j], low[2 * j + 1]));
      _mm_storeu_si128(at + 2 + j, _mm_packus_epi32(v[2 * j], v[2 * j + 1]));
    }
  }
}

void pack_floats(DType d, const PanelRows& in, std::byte* out) {
  if (d == DType::f32) return transpose_words(in, in.k, out);
  transpose_words(in, in.k / 2, out);
  if (in.k % 2 != 0) {
    std::byte* line = out + in.k / 2 * kLineBytes;
    std::memset(line, 0, kLineBytes);
    for (int r = 0; r < in.rows; ++r)
      std::memcpy(line + r * 4, in.data + r * in.stride + (in.k - 1) * 2, 2);
  }
  if (d == DType::f16) split_pairs(out, (in.k + 1) / 2);
}

/// Sixteen rows in another dtype, to be packed from there. Rows are converted whole: a panel of
/// them stays in the cache.
class Converter {
 public:
  Converter(DType from, DType to, std::int64_t k)
      : decode_(decoder(from)),
        encode_(encoder(to)),
        k_(k),
        stride_(row_bytes(to, k)),
        values_(static_cast<std::size_t>(k)),
        bytes_(static_cast<std::size_t>(stride_ * kPanelRows)) {}

  PanelRows operator()(const PanelRows& in) {
    for (int r = 0; r < in.rows; ++r) {
      decode_(in.data + r * in.stride, values_.data(), k_);
      encode_(values_.data(), bytes_.data() + r * stride_, k_);
    }
    return {bytes_.data(), stride_, in.rows, k_};
  }

 private:
  DecodeRow decode_;
  EncodeRow encode_;
  std::int64_t k_, stride_;
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
};

}  // namespace

std::int64_t packed_bytes(DType panel, std::int64_t n, std::int64_t k) {
  RLX_CHECK(n >= 0 && k >= 0 && has_panels(panel), std::string(name(panel)));
  const std::int64_t of_row = row_bytes(panel, k);  // checks the blocks and that k is in range
  std::int64_t bytes = 0;
  // A panel takes less than three times its rows and a line per group, so `of_row` in range keeps panel_bytes in range.
  RLX_CHECK(of_row < (std::int64_t{1} << 56));
  RLX_CHECK(!__builtin_mul_overflow(panel_count(n), panel_bytes(panel, k), &bytes));
  return bytes;
}

bool can_pack(DType source, DType panel, std::int64_t k) {
  if (k < 0 || !has_panels(source) || !has_panels(panel)) return false;
  if (k % info(source).block_elements != 0 || k % info(panel).block_elements != 0) return false;
  if (source == panel) return true;
  if (small_float(source)) return small_float(panel) || encoder(panel) != nullptr;
  return panel == DType::bf16;
}

void pack_panels(const PackSource& source, DType panel, std::int64_t first, std::int64_t last,
                 std::byte* out) {
  RLX_CHECK(can_pack(source.dtype, panel, source.k), std::string(name(source.dtype)));
  RLX_CHECK(first >= 0 && first <= last && last <= panel_count(source.n));
  const bool convert = source.dtype != panel;
  Converter converter(source.dtype, convert ? panel : DType::f32, convert ? source.k : 0);
  const std::int64_t stride = row_bytes(source.dtype, source.k),
                     bytes = panel_bytes(panel, source.k);
  for (std::int64_t p = first; p < last; ++p) {
    const std::int64_t row = p * kPanelRows;
    PanelRows rows{source.data + row * stride, stride,
                   static_cast<int>(std::min<std::int64_t>(kPanelRows, source.n - row)), source.k};
    if (convert) rows = converter(rows);
    if (small_float(panel)) {
      pack_floats(panel, rows, out + p * bytes);
    } else {
      pack_same(panel, rows, out + p * bytes);
    }
  }
}

}  // namespace rlx::cpu
