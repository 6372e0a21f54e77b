// GGUF: what a good file gives, and one hand-made bad file per rule.
#include "formats/gguf.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "cost.h"
#include "formats/bytes.h"
#include "formats/gguf_writer.h"

namespace rlx {
namespace {

using test::BadFile;
using test::Bytes;

constexpr std::uint32_t kU8 = 0, kI8 = 1, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8,
                        kArray = 9, kU64 = 10;
constexpr std::uint32_t kTypeF32 = 0, kTypeQ8_0 = 8;

Bytes head(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
  Bytes b;
  b.text("GGUF").u32(version).u64(tensors).u64(keys);
  return b;
}

Bytes key(std::string_view name, std::uint32_t type) { return head(0, 1).string(name).u32(type); }

// A record of a tensor of f32 with the given extents, in the file's order (fastest first).
Bytes& record(Bytes& b, std::string_view name, std::vector<std::uint64_t> extents,
              std::uint64_t offset, std::uint32_t type = kTypeF32) {
  b.string(name).u32(static_cast<std::uint32_t>(extents.size()));
  for (const std::uint64_t e : extents) b.u64(e);
  return b.u32(type).u64(offset);
}

Bytes one_tensor(std::string_view name, std::vector<std::uint64_t> extents, std::uint64_t offset,
                 std::uint32_t type = kTypeF32, std::size_t data = 256) {
  Bytes b = head(1, 0);
  return record(b, name, std::move(extents), offset, type).pad(32).zeros(data);
}

Bytes two_tensors(std::string_view first, std::uint64_t first_at, std::string_view second,
                  std::uint64_t second_at) {
  Bytes b = head(2, 0);
  record(b, first, {8}, first_at);
  return record(b, second, {8}, second_at).pad(32).zeros(64);
}

Bytes alignment(std::uint32_t value) { return key("general.alignment", kU32).u32(value); }

std::string error_of(const Bytes& b) {
  try {
    GgufFile::from_bytes(b.span(), "m.gguf");
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

std::vector<BadFile> bad_headers() {
  std::vector<BadFile> files = {
      {"nothing but a magic", Bytes().text("GGUF"),
       "offset 4: version: expected 4 bytes, but 0 bytes are left"},
      {"half a magic", Bytes().text("GG"), "offset 0: magic: expected 4 bytes, but 2 bytes"},
      {"another format", Bytes().text("PK\3\4").zeros(32),
       "offset 0: magic: expected 'GGUF', found 'PK\\x03\\x04'"},
      {"version 0", head(0, 0, 0), "offset 4: version: expected 2 or 3, found 0"},
      {"version 1", head(0, 0, 1), "offset 4: version: expected 2 or 3, found 1"},
      {"version 4", head(0, 0, 4), "offset 4: version: expected 2 or 3, found 4"},
      {"big-endian", head(0, 0, 0x03000000), "the file is big-endian"},
      {"big-endian magic", Bytes().text("FUGG").zeros(20), "the file is big-endian"},
      {"key with a length past the end", head(0, 1).u64(14).zeros(13),
       "key: length 14, but 13 bytes are left"},
      {"key of 65536 bytes", head(0, 1).string(std::string(65536, 'k')).u32(kU8).u8(0),
       "expected at most 65535"},
      {"tensors without records", head(1, 0).zeros(15),
       "tensor count: 1 items of at least 24 bytes, but 23 bytes"},
  };
  for (const std::uint64_t n : {1ull << 31, 1ull << 32, 1ull << 61, 1ull << 63, ~0ull}) {
    const std::string count = std::to_string(n);
    files.push_back({"tensor count", head(n, 0).zeros(64), "offset 8: tensor count: " + count});
    files.push_back({"key count", head(0, n).zeros(64), "offset 16: key count: " + count});
    files.push_back({"key length", head(0, 1).u64(n).zeros(64), "offset 24: key: length " + count});
    files.push_back(
        {"string length", key("k", kString).u64(n).zeros(64), "key 'k': string: length " + count});
    files.push_back(
        {"array", key("k", kArray).u32(kU8).u64(n).zeros(64), "key 'k': array length: " + count});
    files.push_back(
        {"array of u64", key("k", kArray).u32(kU64).u64(n).zeros(64), "array length: " + count});
    files.push_back({"array of string", key("k", kArray).u32(kString).u64(n).zeros(64),
                     "array length: " + count});
    files.push_back({"nested array", key("k", kArray).u32(kArray).u64(1).u32(kU8).u64(n).zeros(64),
                     "offset 53: key 'k': array length: " + count});
    files.push_back({"tensor name", head(1, 0).u64(n).zeros(64), "tensor name: length " + count});
  }
  return files;
}

std::vector<BadFile> bad_metadata() {
  Bytes nested = key("k", kArray);
  for (int i = 0; i < 4; ++i) nested.u32(kArray).u64(1);
  nested.u32(kU8).u64(0);
  return {
      {"value type 13", key("k", 13).u64(0),
       "offset 33: key 'k': value type: expected 0 to 12, found 13"},
      {"element type 13", key("k", kArray).u32(13).u64(0),
       "key 'k': array element type: expected 0 to 12, found 13"},
      {"cut value", key("k", kU64).u32(0),
       "key 'k': value: expected 8 bytes, but 4 bytes are left"},
      {"cut array", key("k", kArray).u32(kF32).u64(3).zeros(11),
       "array length: 3 items of at least 4 bytes, but 11"},
      {"cut string in an array",
       key("k", kArray).u32(kString).u64(2).string("a").u64(9).text("12345678"),
       "key 'k': string of an array: length 9, but 8 bytes are left"},
      {"arrays nested too deep", nested, "arrays are nested more than 4 deep"},
      {"bool of 2", key("k", kBool).u8(2),
       "offset 37: key 'k': bool value: expected 0 or 1, found 2"},
      {"bool of 255 in an array", key("k", kArray).u32(kBool).u64(3).u8(1).u8(0).u8(255),
       "offset 51: key 'k': bool value: expected 0 or 1, found 255"},
      {"same key twice", head(0, 2).string("k").u32(kU8).u8(0).string("k").u32(kU8).u8(1),
       "offset 46: duplicate key 'k'"},
      {"alignment 0", alignment(0),
       "key 'general.alignment': expected a multiple of 8 above 0, found 0"},
      {"alignment 1", alignment(1), "expected a multiple of 8 above 0, found 1"},
      {"alignment 33", alignment(33), "expected a multiple of 8 above 0, found 33"},
      {"alignment as i32", key("general.alignment", kI32).u32(32),
       "'general.alignment': expected type u32, found i32"},
      {"alignment as u64", key("general.alignment", kU64).u64(32),
       "'general.alignment': expected type u32, found u64"},
      {"alignment as string", key("general.alignment", kString).string("32"),
       "expected type u32, found string"},
      {"part of a split model", key("split.count", 2).u16(3),
       "the model is split into 3 files, which is not supported"},
      {"split count as string", key("split.count", kString).string("1"),
       "'split.count': expected type u16"},
  };
}

std::vector<BadFile> bad_tensors() {
  Bytes aligned_64 = head(2, 1).string("general.alignment").u32(kU32).u32(64);
  record(aligned_64, "a", {8}, 0);
  record(aligned_64, "b", {8}, 32).pad(64).zeros(128);
  return {
      {"name of 65 bytes", one_tensor(std::string(65, 'n'), {8}, 0),
       "tensor name: length 65, expected at most 64"},
      {"five dimensions", one_tensor("t", {1, 1, 1, 1, 1}, 0),
       "tensor 't': number of dimensions: expected at most 4, found 5"},
      {"dimension of 2^63", one_tensor("t", {1ull << 63}, 0),
       "dimension 0: 9223372036854775808: the number of elements"},
      {"dimension of -1", one_tensor("t", {~0ull}, 0), "does not fit in 63 bits"},
      {"product of 2^64", one_tensor("t", {1ull << 32, 1ull << 32}, 0),
       "dimension 1: 4294967296: the number of elements"},
      {"product that wraps to 0 beside an empty extent", one_tensor("t", {0, 1ull << 62, 4}, 0),
       "dimension 2: 4: the"},
      {"bytes of 2^64", one_tensor("t", {1ull << 62}, 0),
       "4611686018427387904 elements of f32: the size in bytes"},
      {"exabytes", one_tensor("t", {1ull << 40}, 0),
       "tensor 't': 4398046511104 bytes at data offset 0 end past the file"},
      {"no such type", one_tensor("t", {8}, 0, 1000),
       "tensor 't': type: no type has the number 1000"},
      {"type that was removed", one_tensor("t", {32}, 0, 4),
       "tensor 't': type: no type has the number 4"},
      {"unsupported type", one_tensor("t", {256}, 0, 40),
       "tensor 't': type: block type nvfp4 (40) is not supported"},
      {"row that is no whole block", one_tensor("t", {33}, 0, kTypeQ8_0),
       "q8_0 needs a multiple of 32"},
      {"scalar of a block type", one_tensor("t", {}, 0, kTypeQ8_0),
       "rows of 1 elements: q8_0 needs a multiple of 32"},
      {"offset that is not aligned", one_tensor("t", {8}, 4),
       "offset: expected a multiple of the alignment 32, found 4"},
      {"offset of the file's size", one_tensor("t", {8}, 288),
       "32 bytes at data offset 288 end past the file: expected at "
       "least 384 bytes, found 320"},
      {"offset that wraps", one_tensor("t", {8}, ~0ull - 31),
       "end past the file: expected at least 2^64 bytes, found 320"},
      {"data cut by one byte", one_tensor("t", {8}, 0, kTypeF32, 31),
       "expected at least 96 bytes, found 95"},
      {"data cut by half", one_tensor("t", {8}, 0, kTypeF32, 16),
       "expected at least 96 bytes, found 80"},
      {"no data section", head(1, 0).string("t").u32(0).u32(kTypeF32).u64(0),
       "expected at least 68 bytes, found 49"},
      {"same name twice", two_tensors("t", 0, "t", 32), "offset 57: duplicate tensor name 't'"},
      {"same bytes twice", two_tensors("a", 0, "b", 0),
       "tensor 'b': its 32 bytes at data offset 0 overlap those of tensor "
       "'a' (32 bytes at 0)"},
      {"offset not a multiple of the file's alignment", aligned_64,
       "expected a multiple of the alignment 64, found 32"},
      {"control characters in a name", one_tensor("a\n\x1b[2J", {8}, 4),
       "tensor 'a\\n\\x1b[2J': offset"},
  };
}

TEST(Gguf, BadFilesAreRefusedWithFileOffsetAndReason) {
  for (const auto& list : {bad_headers(), bad_metadata(), bad_tensors()})
    for (const BadFile& file : list) {
      const std::string message = error_of(file.bytes);
      EXPECT_NE(message.find(file.message), std::string::npos) << file.what << ": " << message;
      EXPECT_EQ(message.rfind("m.gguf: offset ", 0), 0u) << file.what << ": " << message;
    }
}

TEST(Gguf, UnsupportedIsToldApartFromBroken) {
  const auto code = [](const Bytes& b) {
    try {
      GgufFile::from_bytes(b.span(), "m.gguf");
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::usage;
  };
  EXPECT_EQ(code(one_tensor("t", {256}, 0, 40)), ErrorCode::unsupported);
  EXPECT_EQ(code(head(0, 0, 0x03000000)), ErrorCode::unsupported);
  EXPECT_EQ(code(key("split.count", 2).u16(2)), ErrorCode::unsupported);
  EXPECT_EQ(code(one_tensor("t", {256}, 0, 1000)), ErrorCode::format);
}

TEST(Gguf, LimitsHoldAtTheirValueAndFailOneAbove) {
  const auto with_keys = [](std::uint64_t n) {
    Bytes b = head(0, n);
    for (std::uint64_t i = 0; i < n; ++i) b.string(std::to_string(i)).u32(kU8).u8(0);
    return b;
  };
  EXPECT_EQ(error_of(with_keys(65536)), "accepted");
  EXPECT_EQ(error_of(with_keys(65537)),
            "m.gguf: offset 16: key count: expected at most 65536, found 65537");
  const auto with_tensors = [](std::uint64_t n) {
    Bytes b = head(n, 0);
    for (std::uint64_t i = 0; i < n; ++i) record(b, std::to_string(i), {0}, 0);
    return b.pad(32);
  };
  EXPECT_EQ(error_of(with_tensors(131072)), "accepted");
  EXPECT_EQ(error_of(with_tensors(131073)),
            "m.gguf: offset 8: tensor count: expected at most 131072, found 131073");
}

TEST(Gguf, AnyPrefixOfAGoodFileIsRefused) {
  GgufWriter w;
  w.put_string("general.architecture", "toy");
  w.put_strings("words", std::vector<std::string_view>{"a", "bc"});
  const std::vector<std::byte> data(64);
  w.add_tensor("t", DType::f32, std::vector<std::int64_t>{2, 8}, data);
  const std::vector<std::byte> whole = w.bytes();
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_THROW(GgufFile::from_bytes(std::span(whole).first(n), "m.gguf"), Error) << n;
  EXPECT_EQ(GgufFile::from_bytes(whole, "m.gguf").tensors().size(), 1u);
}

TEST(Gguf, AlignmentIsAnyMultipleOfEight) {
  EXPECT_EQ(GgufFile::from_bytes(head(0, 0).span(), "m.gguf").alignment(), 32u);
  for (const std::uint32_t value : {8u, 24u, 32u, 64u, 1u << 31})
    EXPECT_EQ(GgufFile::from_bytes(alignment(value).span(), "m.gguf").alignment(), value);
  Bytes b = head(1, 1).string("general.alignment").u32(kU32).u32(24);
  record(b, "t", {2}, 24).pad(24).zeros(24).f32(1.5f).f32(-2.0f);
  const GgufFile file = GgufFile::from_bytes(b.span(), "m.gguf");
  float values[2];
  std::memcpy(values, file.find("t")->data.data(), sizeof values);
  EXPECT_EQ(values[1], -2.0f);
}

TEST(Gguf, EmptyScalarAndZeroSizedTensorsLoad) {
  Bytes b = head(3, 0, 2);
  record(b, "scalar", {}, 0);
  record(b, "empty", {0, 7}, 32);
  record(b, "last", {1}, 32).pad(32).zeros(36);
  const GgufFile file = GgufFile::from_bytes(b.span(), "m.gguf");
  EXPECT_EQ(file.version(), 2u);
  EXPECT_TRUE(file.find("scalar")->shape.empty());
  EXPECT_EQ(file.find("scalar")->data.size(), 4u);
  EXPECT_EQ(file.find("empty")->shape, (std::vector<std::int64_t>{7, 0}));
  EXPECT_TRUE(file.find("empty")->data.empty());
  EXPECT_EQ(file.find("none"), nullptr);
}

// A file with a key of every type; `v` for scalars, `a` for arrays of them.
GgufWriter all_types(std::uint32_t version) {
  GgufWriter w(version, 64);
  const std::vector<std::int64_t> ints = {0, 1, 100};
  for (const GgufType t : {GgufType::u8, GgufType::i8, GgufType::u16, GgufType::i16, GgufType::u32,
                           GgufType::i32, GgufType::u64, GgufType::i64}) {
    w.put_int("v." + std::string(name(t)), t, 127);
    w.put_ints("a." + std::string(name(t)), t, ints);
  }
  w.put_float("v.f32", GgufType::f32, 0.5);
  w.put_float("v.f64", GgufType::f64, 0.1);
  w.put_floats("a.f32", GgufType::f32, std::vector<double>{1.5, -2.0});
  w.put_floats("a.f64", GgufType::f64, std::vector<double>{1.5, -2.0});
  w.put_bool("v.bool", true);
  w.put_ints("a.bool", GgufType::boolean, std::vector<std::int64_t>{0, 1});
  w.put_string("v.string", "two\nlines");
  w.put_strings("a.string", std::vector<std::string_view>{"", "x", std::string_view("\0y", 2)});
  w.put_raw("a.array", GgufType::array,
            Bytes().u32(kArray).u64(2).u32(kU8).u64(1).u8(7).u32(kString).u64(0).span());
  return w;
}

TEST(Gguf, GettersReturnWhatTheTypeAllows) {
  const std::vector<std::byte> bytes = all_types(3).bytes();
  const GgufFile f = GgufFile::from_bytes(bytes, "m.gguf");
  for (const std::string t : {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"}) {
    EXPECT_EQ(f.get_int("v." + t), 127) << t;
    EXPECT_EQ(f.get_ints("a." + t), (std::vector<std::int64_t>{0, 1, 100})) << t;
    EXPECT_THROW(f.get_float("v." + t), Error) << t;
    EXPECT_THROW(f.get_floats("a." + t), Error) << t;
    EXPECT_THROW(f.get_bool("v." + t), Error) << t;
  }
  EXPECT_EQ(f.get_float("v.f32"), 0.5);
  EXPECT_EQ(f.get_float("v.f64"), 0.1);
  EXPECT_EQ(f.get_floats("a.f64"), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(f.get_bool("v.bool"), true);
  EXPECT_EQ(f.get_ints("a.bool"), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(f.get_string("v.string"), "two\nlines");
  EXPECT_EQ(f.get_strings("a.string")->at(2), std::string_view("\0y", 2));
  EXPECT_EQ(f.get_int("missing"), std::nullopt);
  EXPECT_FALSE(f.has("missing"));
  EXPECT_TRUE(f.has("a.array"));
}

TEST(Gguf, GettersNameKeyAndBothTypes) {
  const std::vector<std::byte> bytes = all_types(3).bytes();
  const GgufFile f = GgufFile::from_bytes(bytes, "m.gguf");
  const auto message = [](auto call) -> std::string {
    try {
      call();
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message([&] { f.get_int("v.bool"); }),
            "m.gguf: key 'v.bool': expected an integer, found bool");
  EXPECT_EQ(message([&] { f.get_int("a.u8"); }),
            "m.gguf: key 'a.u8': expected an integer, found array of u8");
  EXPECT_EQ(message([&] { f.get_floats("a.u8"); }),
            "m.gguf: key 'a.u8': expected array of f32 or f64, found array of u8");
  EXPECT_EQ(message([&] { f.get_string("a.string"); }),
            "m.gguf: key 'a.string': expected string, found array of string");
  EXPECT_EQ(message([&] { f.get_strings("v.string"); }),
            "m.gguf: key 'v.string': expected array of string, found string");
  EXPECT_EQ(message([&] { f.get_strings("a.array"); }),
            "m.gguf: key 'a.array': expected array of string, found array of array");
  EXPECT_EQ(message([&] { f.get_ints("a.f32"); }),
            "m.gguf: key 'a.f32': expected array of integers or bool, found array of f32");
  const Bytes large = key("k", kU64).u64(~0ull);
  const GgufFile g = GgufFile::from_bytes(large.span(), "m.gguf");
  EXPECT_EQ(message([&] { g.get_int("k"); }),
            "m.gguf: key 'k': 18446744073709551615 is above the largest integer, 2^63 - 1");
  EXPECT_EQ(g.metadata()[0].text, "18446744073709551615");
}

// F02: the arrays of a tokenizer with every element type: those that are not exactly right are
// refused by the getters.
TEST(Gguf, TypedArraysTakeNoOtherElementType) {
  for (std::uint32_t element = 0; element <= 12; ++element) {
    const Bytes b = key("tokenizer.ggml.scores", kArray).u32(element).u64(2).zeros(64);
    const GgufFile f = GgufFile::from_bytes(b.span(), "m.gguf");
    const bool is_float = element == kF32 || element == 12;
    const bool is_string = element == kString,
               is_int = !is_float && !is_string && element != kArray;
    const auto accepted = [](auto call) {
      try {
        return call()->size() == 2;
      } catch (const Error&) {
        return false;
      }
    };
    EXPECT_EQ(accepted([&] { return f.get_floats("tokenizer.ggml.scores"); }), is_float) << element;
    EXPECT_EQ(accepted([&] { return f.get_strings("tokenizer.ggml.scores"); }), is_string)
        << element;
    EXPECT_EQ(accepted([&] { return f.get_ints("tokenizer.ggml.scores"); }), is_int) << element;
  }
}

TEST(Gguf, MetadataIsListedInFileOrder) {
  const std::vector<std::byte> bytes = all_types(3).bytes();
  const auto entries = GgufFile::from_bytes(bytes, "m.gguf").metadata();
  EXPECT_EQ(entries[0].key, "general.alignment");
  EXPECT_EQ(entries[0].text, "64");
  const auto text = [&](std::string_view wanted) -> std::string {
    for (const auto& e : entries)
      if (e.key == wanted) return e.text;
    return "missing";
  };
  EXPECT_EQ(text("a.i16"), "[3 x i16]");
  EXPECT_EQ(text("a.array"), "[2 x array]");
  EXPECT_EQ(text("v.string"), "'two\\nlines'");
  EXPECT_EQ(text("v.f32"), "0.5");
  EXPECT_EQ(text("v.bool"), "true");
}

// Writes what a file holds, value by value through the getters.
std::vector<std::byte> copy(const GgufFile& f) {
  GgufWriter w(f.version(), f.alignment());
  for (const auto& e : f.metadata()) {
    if (e.key == "general.alignment") continue;  // the writer's own
    const bool is_array = e.type == GgufType::array;
    if (e.element == GgufType::array) {
      Bytes value;
      value.u32(kArray).u64(2);
      const auto raw = *f.get_raw(e.key);
      value.text({reinterpret_cast<const char*>(raw.data()), raw.size()});
      w.put_raw(e.key, e.type, value.span());
    } else if (e.element == GgufType::string) {
      is_array ? w.put_strings(e.key, *f.get_strings(e.key))
               : w.put_string(e.key, *f.get_string(e.key));
    } else if (e.element == GgufType::f32 || e.element == GgufType::f64) {
      if (!is_array) {
        w.put_float(e.key, e.type, *f.get_float(e.key));
        continue;
      }
      const std::vector<float> floats = *f.get_floats(e.key);
      w.put_floats(e.key, e.element, std::vector<double>(floats.begin(), floats.end()));
    } else if (is_array) {
      w.put_ints(e.key, e.element, *f.get_ints(e.key));
    } else {
      w.put_int(e.key, e.type,
                e.type == GgufType::boolean ? *f.get_bool(e.key) : *f.get_int(e.key));
    }
  }
  for (const GgufTensor& t : f.tensors()) w.add_tensor(t.name, t.dtype, t.shape, t.data);
  return w.bytes();
}

TEST(Gguf, WriteReadWriteIsEqual) {
  for (const std::uint32_t version : {2u, 3u}) {
    GgufWriter w = all_types(version);
    std::vector<std::byte> data(2 * 34 * 3, std::byte{5});
    w.add_tensor("blocks", DType::q8_0, std::vector<std::int64_t>{3, 64}, data);
    w.add_tensor("scalar", DType::f16, {}, std::span(data).first(2));
    w.add_tensor("empty", DType::i64, std::vector<std::int64_t>{0, 4}, {});
    const std::vector<std::byte> first = w.bytes();
    EXPECT_EQ(copy(GgufFile::from_bytes(first, "m.gguf")), first);
  }
}

TEST(Gguf, FilesOnDiskAreMapped) {
  const std::string path = testing::TempDir() + "rlx_gguf_test.gguf";
  all_types(3).write(path);
  GgufFile a(path);
  GgufFile b = std::move(a);
  EXPECT_EQ(b.path(), path);
  EXPECT_EQ(b.file().bytes().size(), all_types(3).bytes().size());
  EXPECT_EQ(b.get_int("v.u8"), 127);
  EXPECT_THROW(GgufFile(path + ".missing"), Error);
  const Bytes in_memory = head(0, 0);
  EXPECT_THROW(GgufFile::from_bytes(in_memory.span(), "m.gguf").file(), InternalError);
}

TEST(Gguf, WriterRefusesWhatReadersWould) {
  GgufWriter w;
  w.put_int("k", GgufType::u8, 255);
  EXPECT_THROW(w.put_int("k", GgufType::u8, 1), Error) << "duplicate key";
  EXPECT_THROW(w.put_int("big", GgufType::u8, 256), Error);
  EXPECT_THROW(w.put_int("string", GgufType::string, 1), Error);
  EXPECT_THROW(w.put_float("int", GgufType::u8, 1), Error);
  const std::vector<std::byte> data(32);
  w.add_tensor("t", DType::f32, std::vector<std::int64_t>{8}, data);
  EXPECT_THROW(w.add_tensor("t", DType::f32, std::vector<std::int64_t>{8}, data), Error)
      << "duplicate name";
  EXPECT_THROW(w.add_tensor("size", DType::f32, std::vector<std::int64_t>{9}, data), Error);
  EXPECT_THROW(w.add_tensor("type", DType::u8, std::vector<std::int64_t>{32}, data), Error);
  EXPECT_THROW(w.add_tensor("row", DType::q4_0, std::vector<std::int64_t>{31}, data), Error);
  EXPECT_THROW(w.add_tensor(std::string(65, 'n'), DType::i8, std::vector<std::int64_t>{32}, data),
               Error);
  EXPECT_THROW(GgufWriter(3, 24), Error) << "legal to read, never written";
  EXPECT_THROW(GgufWriter(1), Error);
}

// Vocabularies of real models have 150,000 to 260,000 pieces; opening one must stay a matter of
// milliseconds.
TEST(Gguf, LargeVocabularyOpensFast) {
  std::vector<std::string> words;
  for (int i = 0; i < 200'000; ++i) words.push_back("piece" + std::to_string(i));
  GgufWriter w;
  w.put_strings("tokenizer.ggml.tokens", std::vector<std::string_view>(words.begin(), words.end()));
  const std::vector<std::byte> bytes = w.bytes();
  const double cost = test::cost([&] {
    const GgufFile f = GgufFile::from_bytes(bytes, "m.gguf");
    EXPECT_EQ(f.get_strings("tokenizer.ggml.tokens")->back(), words.back());
  });
  EXPECT_LT(cost, 2) << "0.15 in a release build";
}

}  // namespace
}  // namespace rlx
