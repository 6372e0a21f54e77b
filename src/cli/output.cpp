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
  if (path.empty()) fail(ErrorCode::usage, "the name of the file to write is empty");
  std::error_code error;
  if (path != "-" && std::filesystem::equivalent(path, input, error) && !error)
    fail(ErrorCode::usage, "{}: is the file that is read; expected another name for the result", path);
}

void write_result(const std::string& path, std::string_view content, const std::string& input) {
  check_result_path(path, input);
  if (path == "-") return out().write(content);
  write_file_atomic(path, content);
}

}  // namespace rlx::cli
