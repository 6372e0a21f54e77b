// Data on stdout, talk on stderr.
#pragma once

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace rlx::cli {

/// Thrown when the reader of stdout has gone away (EPIPE): the program ends quietly.
struct OutputClosed {};

/// stdout. Errors: io when it cannot be written (disk full).
class Output {
 public:
  void write(std::string_view text);
  void flush();
};
Output& out();

/// A line on stderr, without its end.
void say(std::string_view line);

/// JSON on one line, always valid UTF-8.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);
void write_json(const nlohmann::ordered_json& json);

/// Refuses a name of a result before work is done for it. `inputs`: what the command reads, files, model folders and
/// compiled files. Errors (usage): no name; a folder, or one in a folder that is not there; an input, a file of an
/// input folder or the model of a compiled file, which would be lost.
void check_result_path(const std::string& path, std::span<const std::string> inputs);
/// The same for results that are always new files. Errors (usage): also "-", a device, FIFO or socket.
void check_result_file(const std::string& path, std::span<const std::string> inputs);
/// Writes a result to a file of the user's choice, all of it or nothing; "-" is stdout. Errors: io; those of
/// check_result_path.
void write_result(const std::string& path, std::string_view content, std::span<const std::string> inputs);

/// Control characters of a message as \xNN, so that it stays one line and cannot steer a terminal.
std::string one_line(std::string_view message);

}  // namespace rlx::cli
