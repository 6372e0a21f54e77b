#include "cli/output.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace rlx::cli {
namespace {

[[noreturn]] void failed() {
  const int why = errno;
  if (why == EPIPE) throw OutputClosed{};
  fail(ErrorCode::io, "stdout: cannot be written: {}", std::strerror(why));
}

}  // namespace

void Output::write(std::string_view text) {
  if (!text.empty() && std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) failed();
}

void Output::flush() {
  if (std::fflush(stdout) != 0) failed();
}

Output& out() {
  static Output output;
  return output;
}

void say(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fputc('\n', stderr);
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void write_json(const nlohmann::ordered_json& json) {
  out().write(json_text(json));
  out().write("\n");
}

std::string one_line(std::string_view message) {
  std::string text;
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      text += "; ";
    else if (byte < 0x20 || byte == 0x7f)
      text += fmt::format("\\x{:02x}", byte);
    else
      text += c;
  }
  return text;
}

void check_result_path(const std::string& path, const std::string& input) {
  namespace fs = std::filesystem;
  if (path.empty()) fail(ErrorCode::usage, "the name of the file to write is empty");
  std::error_code error;
  const fs::path file(path);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (fs::is_directory(file, error) || !file.has_filename())
    fail(ErrorCode::usage, "{}: expected a name for the result, found a folder", path);
  if (!fs::is_directory(folder, error))
    fail(ErrorCode::usage, "{}: the folder of the result, {}, is not there", path, folder.string());
  const bool exists = fs::exists(file, error);
  if (exists && fs::equivalent(file, input, error) && !error)
    fail(ErrorCode::usage, "{}: is the file that is read; expected another name for the result", path);
  if (exists && fs::is_directory(input, error) && fs::equivalent(folder, input, error) && !error)
    fail(ErrorCode::usage, "{}: is a file of the model that is read; expected another name for the result", path);
}

void check_result_file(const std::string& path, const std::string& input) {
  if (path == "-") fail(ErrorCode::usage, "-: this result is a file, not text for stdout; expected its name");
  check_result_path(path, input);
}

void write_result(const std::string& path, std::string_view content, const std::string& input) {
  if (path == "-") return out().write(content);
  check_result_path(path, input);
  write_file_atomic(path, content);
}

}  // namespace rlx::cli
