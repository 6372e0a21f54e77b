#include "cli/output.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "runtime/aot_place.h"
#include "runtime/artefact.h"

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

namespace {

namespace fs = std::filesystem;

// A file of a model folder, there or to be read from now on.
bool belongs_to_folder(const fs::path& file, const fs::path& input) {
  std::error_code error;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (!fs::is_directory(input, error) || !fs::equivalent(folder, input, error) || error) return false;
  const fs::path kind = file.extension();
  return fs::exists(file, error) || kind == ".json" || kind == ".safetensors" || kind == ".jinja";
}

void refuse_input(const fs::path& file, const fs::path& input) {
  std::error_code error;
  if (fs::exists(file, error) && fs::equivalent(file, input, error) && !error)
    fail(ErrorCode::usage, "{}: is the file that is read; expected another name for the result", file.string());
  if (belongs_to_folder(file, input))
    fail(ErrorCode::usage, "{}: is a file of the model that is read; expected another name for the result",
         file.string());
}

}  // namespace

void check_result_path(const std::string& path, std::span<const std::string> inputs) {
  if (path.empty()) fail(ErrorCode::usage, "the name of the file to write is empty");
  std::error_code error;
  const fs::path file(path);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (fs::is_directory(file, error) || !file.has_filename())
    fail(ErrorCode::usage, "{}: expected a name for the result, found a folder", path);
  if (!fs::is_directory(folder, error))
    fail(ErrorCode::usage, "{}: the folder of the result, {}, is not there", path, folder.string());
  for (const std::string& input : inputs) {
    refuse_input(file, input);
    // A compiled file is read together with its model.
    if (is_aot_bundle(input)) refuse_input(file, artefact_model(input));
  }
}

void check_result_file(const std::string& path, std::span<const std::string> inputs) {
  if (path == "-") fail(ErrorCode::usage, "-: this result is a file, not text for stdout; expected its name");
  check_result_path(path, inputs);
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error))
    fail(ErrorCode::usage, "{}: expected a file for the result, found a device, FIFO or socket", path);
}

void write_result(const std::string& path, std::string_view content, std::span<const std::string> inputs) {
  if (path == "-") return out().write(content);
  check_result_path(path, inputs);
  write_file_atomic(path, content);
}

}  // namespace rlx::cli
