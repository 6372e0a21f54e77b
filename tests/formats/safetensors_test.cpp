// safetensors: what good files and folders give, and one hand-made bad file per rule.
#include "error_text.h"
#include "formats/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "formats/bytes.h"
#include "formats/safetensors_writer.h"

namespace rlx {
namespace {

using test::BadFile;
using test::Bytes;

Bytes file(std::string_view header, std::size_t data = 0) {
  return Bytes().string(header).zeros(data);
}

// A header with one tensor `t` and its fields.
Bytes tensor(std::string_view fields, std::size_t data = 0) {
  return file("{\"t\":{" + std::string(fields) + "}}", data);
}

Bytes two(std::string_view first, std::string_view second, std::size_t data) {
  return file("{\"a\":{" + std::string(first) + "},\"b\":{" + std::string(second) + "}}", data);
}

std::string safetensors_error(const Bytes& b) {
  return test::error_text([&] { SafetensorsFile::from_bytes(b.span(), "m.safetensors"); });
}

std::vector<BadFile> bad_json_headers() {
  std::string deep = "{\"t\":{\"x\":";
  for (int i = 0; i < 100'000; ++i) deep += '[';
  return {
      {"7 bytes", Bytes().zeros(7),
       "offset 0: header length: expected 8 bytes, but 7 bytes are left"},
      {"header past the end", Bytes().u64(3).text("{}"),
       "offset 0: header length 3: expected at least 11 bytes in the file, found 10"},
      {"header of 2^64 - 1", Bytes().u64(~0ull).text("{}"),
       "header length: expected at most 100000000 bytes, found 184467"},
      {"header of 100000001", Bytes().u64(100'000'001).text("{}"),
       "expected at most 100000000 bytes, found 100000001"},
      {"empty header", file(""),
       "offset 8: JSON: expected '{' at the start of the header, found the end of the text"},
      {"an array", file("[]"), "expected '{' at the start of the header, found '['"},
      {"text after the header", file("{} {}"),
       "offset 11: JSON: expected the end of the text, found '{'"},
      {"zero bytes after the header", file(std::string_view("{}\0", 3)),
       "expected the end of the text, found '\\x00'"},
      {"unfinished", file("{\"a\""), "JSON: expected ':' after a key, found the end of the text"},
      {"trailing comma", file("{\"__metadata__\":{},}"), "JSON: expected key, found '}'"},
      {"no comma", file("{\"__metadata__\":{} \"a\":{}}"),
       "offset 27: JSON: expected ',' or '}', found '\"'"},
      {"deep nesting", file(deep), "JSON: nested more than 32 deep"},
      {"invalid UTF-8", file("{\"a\xff\":{}}"), "offset 11: JSON: invalid UTF-8 in a string"},
      {"overlong UTF-8", file("{\"\xc0\x80\":{}}"), "invalid UTF-8"},
      {"surrogate in UTF-8", file("{\"\xed\xa0\x80\":{}}"), "invalid UTF-8"},
      {"above U+10FFFF", file("{\"\xf4\x90\x80\x80\":{}}"), "invalid UTF-8"},
      {"cut UTF-8", file("{\"\xe6\x97"), "invalid UTF-8"},
      {"control character", file("{\"a\nb\":{}}"),
       "offset 11: JSON: control character 0x0a in a string"},
      {"bad escape", file("{\"\\x\":{}}"), "expected an escape"},
      {"bad \\u", file("{\"\\u12g4\":{}}"),
       "expected four hexadecimal digits after \\u, found 'g'"},
      {"lone low surrogate", file("{\"\\udc00\":{}}"), "low surrogate without a high one"},
      {"lone high surrogate", file("{\"\\ud800x\":{}}"), "high surrogate without a low one"},
      {"two high surrogates", file("{\"\\ud800\\ud800\":{}}"), "high surrogate without a low one"},
      {"metadata that is a list", file("{\"__metadata__\":[]}"),
       "expected an object as '__metadata__', found '['"},
      {"metadata value that is a number", file("{\"__metadata__\":{\"a\":1}}"),
       "expected a string as value of a '__metadata__' key, found '1'"},
      {"metadata value that is null", file("{\"__metadata__\":{\"a\":null}}"),
       "expected a string as value"},
      {"metadata twice", file("{\"__metadata__\":{},\"__metadata__\":{}}"),
       "duplicate key '__metadata__'"},
      {"metadata key twice", file("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}"),
       "'__metadata__': duplicate key 'a'"},
  };
}

std::vector<BadFile> bad_entries() {
  return {
      {"tensor that is a number", file("{\"t\":1}"),
       "expected an object that describes a tensor, found '1'"},
      {"no dtype", tensor(R"("shape":[],"data_offsets":[0,0])"), "tensor 't': dtype is missing"},
      {"no shape", tensor(R"("dtype":"U8","data_offsets":[0,0])"), "tensor 't': shape is missing"},
      {"no offsets", tensor(R"("dtype":"U8","shape":[])"), "tensor 't': data_offsets is missing"},
      {"dtype twice", tensor(R"("dtype":"U8","dtype":"U8")"),
       "tensor 't': duplicate field 'dtype'"},
      {"unknown dtype", tensor(R"("dtype":"F99")"), "tensor 't': unknown dtype 'F99'"},
      {"dtype in another case", tensor(R"("dtype":"f32")"), "tensor 't': unknown dtype 'f32'"},
      {"unsupported dtype", tensor(R"("dtype":"F8_E4M3")"),
       "tensor 't': element type F8_E4M3 is not supported"},
      {"dtype that is a number", tensor(R"("dtype":3)"), "expected a string as dtype, found '3'"},
      {"negative dimension", tensor(R"("shape":[-1])"),
       "expected an integer of a shape, found '-'"},
      {"fraction", tensor(R"("shape":[1.0])"),
       "expected an integer of a shape, found a number with a fraction"},
      {"exponent", tensor(R"("shape":[1e3])"), "found a number with a fraction"},
      {"leading zero", tensor(R"("shape":[01])"), "a number with a leading 0"},
      {"dimension of 2^64", tensor(R"("shape":[18446744073709551616])"),
       "the number does not fit in 64 bits"},
      {"dimension of 2^63", tensor(R"("shape":[9223372036854775808])"),
       "tensor 't': a dimension does not fit in 63 bits"},
      {"65 dimensions",
       tensor("\"shape\":[1" +
              [] {
                std::string s;
                for (int i = 0; i < 64; ++i) s += ",1";
                return s;
              }() +
              "]"),
       "tensor 't': more than 64 dimensions"},
      {"product that wraps",
       tensor(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
       "tensor 't': the size of its shape does not fit in 63 bits"},
      {"bytes that wrap",
       tensor(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"),
       "does not fit"},
      {"product that wraps beside an empty extent",
       tensor(R"("dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"),
       "does not fit in 63 bits"},
      {"one offset", tensor(R"("data_offsets":[0])"),
       "tensor 't': data_offsets: expected 2 numbers, found 1"},
      {"three offsets", tensor(R"("data_offsets":[0,0,0])"),
       "data_offsets: expected 2 numbers, found 3"},
      {"offsets in the wrong order", tensor(R"("data_offsets":[4,0])"),
       "data_offsets: the begin 4 is behind the end 0"},
      {"range of the wrong size", tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4),
       "tensor 't': shape and dtype need 8 bytes, data_offsets [0, 4] hold 4"},
      {"hole at the start", tensor(R"("dtype":"U8","shape":[4],"data_offsets":[1,5])", 5),
       "data_offsets [1, 5] leave a hole behind the data before them, which ends at 0"},
      {"hole",
       two(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])",
           R"("dtype":"U8","shape":[4],"data_offsets":[5,9])", 9),
       "tensor 'b': data_offsets [5, 9] leave a hole"},
      {"overlap",
       two(R"("dtype":"U8","shape":[4],"data_offsets":[3,7])",
           R"("dtype":"U8","shape":[4],"data_offsets":[0,4])", 7),
       "tensor 'a': data_offsets [3, 7] overlap the data before them, which ends at 4"},
      {"same range",
       two(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])",
           R"("dtype":"U8","shape":[4],"data_offsets":[0,4])", 4),
       "tensor 'b': data_offsets [0, 4] overlap"},
      {"data cut",
       two(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])",
           R"("dtype":"U8","shape":[4],"data_offsets":[4,8])", 7),
       "tensor 'b': its data end past the file: expected 121 bytes in the file, found 120"},
      {"offsets of 2^64 - 1",
       tensor(
           R"("dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807])",
           4),
       "end past the file"},
      {"data left over", tensor(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])", 5),
       "the tensors end here, but bytes follow"},
      {"data without tensors", file("{}", 1),
       "offset 10: the tensors end here, but bytes follow: expected 10 bytes in the "
       "file, found 11"},
  };
}

TEST(Safetensors, BadFilesAreRefusedWithFileOffsetAndReason) {
  for (const auto& list : {bad_json_headers(), bad_entries()})
    for (const BadFile& bad : list) {
      const std::string message = safetensors_error(bad.bytes);
      EXPECT_NE(message.find(bad.message), std::string::npos) << bad.what << ": " << message;
      EXPECT_EQ(message.rfind("m.safetensors: offset ", 0), 0u) << bad.what << ": " << message;
    }
}

// F11: whatever the ranges are, and whether or not an escape hides that the names are equal.
TEST(Safetensors, DuplicateNamesAreNamed) {
  const std::string a = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})",
                    b = R"({"dtype":"U8","shape":[4],"data_offsets":[4,8]})";
  for (const std::string& second : {a, b})
    for (const std::string name : {"a", "\\u0061"}) {
      const std::string message =
          safetensors_error(file("{\"a\":" + a + ",\"" + name + "\":" + second + "}", 8));
      EXPECT_EQ(message, "m.safetensors: offset 61: duplicate tensor name 'a'");
    }
}

// F10
TEST(Safetensors, FilesWithoutTensorsLoad) {
  for (const std::string_view header :
       {"{}", "{}   ", R"({"__metadata__":{}})", R"({"__metadata__":{"format":"pt"}})"})
    EXPECT_EQ(safetensors_error(file(header)), "no error") << header;
  const Bytes b = file(R"({"__metadata__":{"a":"\u00e9\ud83d\ude00\n"}})");
  EXPECT_EQ(SafetensorsFile::from_bytes(b.span(), "m").metadata().at("a"),
            "\xc3\xa9\xf0\x9f\x98\x80\n");
}

TEST(Safetensors, EmptyTensorsAndScalarsLoad) {
  const Bytes b = file(
      R"({"e":{"dtype":"F32","shape":[3,0],"data_offsets":[4,4]},"s":{"dtype":"F32","shape":[],)"
      R"("data_offsets":[0,4]},"f":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
      4);
  const SafetensorsFile f = SafetensorsFile::from_bytes(b.span(), "m");
  ASSERT_EQ(f.tensors().size(), 3u);
  EXPECT_TRUE(f.find("s")->shape.empty());
  EXPECT_EQ(f.find("s")->data.size(), 4u);
  EXPECT_EQ(f.find("e")->shape, (std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(f.tensors()[0].name, "f") << "in the order of the data";
  EXPECT_EQ(f.find("none"), nullptr);
}

TEST(Safetensors, UnknownFieldsAreIgnored) {
  const Bytes b = tensor(
      R"("dtype":"U8","shape":[1],"x":[{"y":-1.5e+3},true,false,null,"z",[]],"data_offsets":[0,1])",
      1);
  EXPECT_EQ(safetensors_error(b), "no error");
  for (const std::string_view bad : {"-", "1.", "1e", "00", "tru", "1.e3", "+1", ""})
    EXPECT_NE(
        safetensors_error(tensor(
            "\"x\":" + std::string(bad) + R"(,"dtype":"U8","shape":[],"data_offsets":[0,1])", 1)),
        "no error")
        << bad;
}

TEST(Safetensors, UnsupportedIsToldApartFromBroken) {
  const Bytes b = tensor(R"("dtype":"F8_E5M2")");
  try {
    SafetensorsFile::from_bytes(b.span(), "m");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
  }
}

TEST(Safetensors, MetadataKeysAreBounded) {
  const auto with_keys = [](int n) {
    std::string header = "{\"__metadata__\":{";
    for (int i = 0; i < n; ++i) header += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"\"";
    return file(header + "}}");
  };
  EXPECT_EQ(safetensors_error(with_keys(65536)), "no error");
  EXPECT_NE(safetensors_error(with_keys(65537)).find("'__metadata__': more than 65536 keys"),
            std::string::npos);
}

SafetensorsWriter sample() {
  static const std::vector<std::byte> data(64, std::byte{3});
  SafetensorsWriter w;
  w.set_metadata("format", "pt");
  w.set_metadata("quo\"te", "line\n");
  for (const DType t :
       {DType::u8, DType::f64, DType::boolean, DType::f16, DType::bf16, DType::i64, DType::f32,
        DType::i16, DType::i32, DType::i8, DType::u16, DType::u32, DType::u64})
    w.add("tensor." + std::string(name(t)), t, std::vector<std::int64_t>{2, 4},
          std::span(data).first(static_cast<std::size_t>(row_bytes(t, 8))));
  w.add("scalar", DType::f32, {}, std::span(data).first(4));
  w.add("empty", DType::f32, std::vector<std::int64_t>{0, 2}, {});
  return w;
}

TEST(Safetensors, WriteReadWriteIsEqual) {
  const std::vector<std::byte> first = sample().bytes();
  const SafetensorsFile f = SafetensorsFile::from_bytes(first, "m");
  SafetensorsWriter w;
  for (const auto& [key, value] : f.metadata()) w.set_metadata(key, value);
  for (const SafetensorsTensor& t : f.tensors()) w.add(t.name, t.dtype, t.shape, t.data);
  EXPECT_EQ(w.bytes(), first);
  for (const SafetensorsTensor& t : f.tensors()) {
    const auto offset = static_cast<std::size_t>(t.data.data() - first.data());
    EXPECT_EQ(offset % static_cast<std::size_t>(info(t.dtype).block_bytes), 0u)
        << t.name << " is aligned";
  }
}

TEST(Safetensors, AnyPrefixOfAGoodFileIsRefused) {
  const std::vector<std::byte> whole = sample().bytes();
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_NE(test::error_text([&] { SafetensorsFile::from_bytes(std::span(whole).first(n), "m"); }),
              "no error")
        << n;
}

TEST(Safetensors, WriterRefusesWhatReadersWould) {
  SafetensorsWriter w = sample();
  const std::vector<std::byte> data(8);
  EXPECT_THROW(w.add("scalar", DType::f64, {}, data), Error) << "duplicate name";
  EXPECT_THROW(w.add("size", DType::f64, std::vector<std::int64_t>{2}, data), Error);
  EXPECT_THROW(w.add("type", DType::q8_0, std::vector<std::int64_t>{32}, data), Error);
  EXPECT_THROW(w.add("__metadata__", DType::f64, {}, data), Error);
  w.add("bad\xff", DType::f64, {}, data);
  EXPECT_THROW(w.bytes(), Error) << "not UTF-8";
}

// A checkpoint of three shards in a folder of its own.
class ShardedCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(testing::TempDir()) / ("rlx_shards_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    for (int i = 1; i <= 3; ++i) write_shard(i, {"t" + std::to_string(i)});
    write_index(
        R"({"metadata":{"total_size":48},"weight_map":{"t1":"m-1.safetensors","t2":"m-2.safetensors",)"
        R"("t3":"m-3.safetensors"}})");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write_shard(int i, const std::vector<std::string>& names) {
    static const std::vector<std::byte> data(16, std::byte{1});
    SafetensorsWriter w;
    for (const std::string& n : names) w.add(n, DType::f32, std::vector<std::int64_t>{4}, data);
    w.write(shard(i));
  }
  void write_index(std::string_view text) {
    write_file_atomic(folder_ / "model.safetensors.index.json", text);
  }
  std::filesystem::path shard(int i) const {
    return folder_ / ("m-" + std::to_string(i) + ".safetensors");
  }
  std::string error() const {
    return test::error_text([&] { open_safetensors_folder(folder_); });
  }
  void expect_error(std::string_view part) const {
    EXPECT_NE(error().find(part), std::string::npos) << error();
  }

  std::filesystem::path folder_;
};

TEST_F(ShardedCheckpoint, OpensAllShardsByName) {
  const auto files = open_safetensors_folder(folder_);
  ASSERT_EQ(files.size(), 3u);
  EXPECT_NE(files[1].find("t2"), nullptr);
  EXPECT_EQ(files[2].file().path(), shard(3).string());
}

TEST_F(ShardedCheckpoint, SingleFileNeedsNoIndex) {
  std::filesystem::rename(shard(1), folder_ / "model.safetensors");
  EXPECT_EQ(open_safetensors_folder(folder_).size(), 1u);
}

// F13: one line with the file, the bytes expected and the bytes found.
TEST_F(ShardedCheckpoint, CutShardIsNamedWithBothSizes) {
  const auto size = std::filesystem::file_size(shard(2));
  for (const auto cut : {size - 1, size * 6 / 10}) {
    std::filesystem::resize_file(shard(2), cut);
    const std::string message = error();
    EXPECT_EQ(message.rfind(shard(2).string() + ": offset ", 0), 0u) << message;
    EXPECT_NE(message.find("bytes in the file, found " + std::to_string(cut)), std::string::npos)
        << message;
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0);
  }
}

TEST_F(ShardedCheckpoint, MissingShardIsNamed) {
  std::filesystem::remove(shard(3));
  expect_error(shard(3).string() + ": the shard that " +
               (folder_ / "model.safetensors.index.json").string());
}

TEST_F(ShardedCheckpoint, TensorsAreWhereTheIndexSays) {
  write_shard(2, {"t3"});
  write_shard(3, {"t2"});
  expect_error("tensor 't2': expected in 'm-2.safetensors', found in 'm-3.safetensors'");
  write_shard(2, {"t2"});
  write_shard(3, {"other"});
  expect_error("tensor 't3': expected in 'm-3.safetensors', found in no shard");
  write_shard(3, {"t3", "t2"});
  expect_error("tensor 't2' is in two shards");
}

TEST_F(ShardedCheckpoint, ShardNamesCannotLeaveTheFolder) {
  for (const std::string bad : {"../m-1.safetensors", "/etc/passwd", "sub/m-1.safetensors", "..",
                                ".", "", "a\\\\b", "a\\u0000"}) {
    write_index("{\"weight_map\":{\"t1\":\"" + bad + "\"}}");
    expect_error("'weight_map': expected the plain name of a file in the folder, found");
  }
}

TEST_F(ShardedCheckpoint, BadIndexIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"{}", "'weight_map' is missing"},
      {R"({"weight_map":{}})", "'weight_map' is empty"},
      {R"({"weight_map":[]})", "expected an object as 'weight_map', found '['"},
      {R"({"weight_map":{"t1":1}})",
       "expected a file name as value of a 'weight_map' key, found '1'"},
      {R"({"weight_map":{"t1":"a","t\u0031":"a"}})", "'weight_map': duplicate tensor name 't1'"},
      {R"({"weight_map":{"t1":"a"},"weight_map":{}})", "duplicate key 'weight_map'"},
      {R"({"weight_map":{"t1":"a"}} x)", "expected the end of the text, found 'x'"},
  };
  for (const auto& [text, message] : cases) {
    write_index(text);
    expect_error(message);
  }
  std::filesystem::remove(folder_ / "model.safetensors.index.json");
  expect_error(
      "expected model.safetensors or model.safetensors.index.json in the folder, found neither");
}

}  // namespace
}  // namespace rlx
