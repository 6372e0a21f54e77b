// The flags of one command, without the parser's headers: they cost seconds in every file that sees
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::cli {

struct IntegerRange {
  std::int64_t least, most;
};
struct NumberRange {
  double least, most;
};

/// A command says what it takes; parse() fills the variables. Names are "-t,--threads"; a name of
/// one dash and several letters
/// ("-pg") is taken as llama-bench writes it. Errors (usage) name the flag, its range and the value
/// found.
class Arguments {
 public:
  Arguments(std::string command, std::string summary, std::string examples);
  ~Arguments();

  void positional(const std::string& name, std::string& value, const std::string& help,
                  bool required = true);
  void positionals(const std::string& name, std::vector<std::string>& values,
                   const std::string& help);
  void flag(const std::string& names, bool& value, const std::string& help);
  void text(const std::string& names, std::optional<std::string>& value, const std::string& help);
  /// Comma lists and repetition.
  void texts(const std::string& names, std::vector<std::string>& values, const std::string& help);
  /// Each repetition is one text, commas included.
  void repeated(const std::string& names, std::vector<std::string>& values, const std::string& help);
  void integer(const std::string& names, std::optional<std::int64_t>& value, IntegerRange range,
               const std::string& help);
  void number(const std::string& names, std::optional<double>& value, NumberRange range,
              const std::string& help);

  enum class Outcome : std::uint8_t { run, help };
  Outcome parse(std::vector<std::string> arguments);
  std::string help() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The whole of `text` as a number of the range. Errors (usage): "FLAG: expected an integer A to B,
/// found "X"".
std::int64_t parse_integer(std::string_view flag, std::string_view text, IntegerRange range);
double parse_number(std::string_view flag, std::string_view text, NumberRange range);

/// Parts between commas; empty ones are left out.
std::vector<std::string> split_list(std::string_view text, char separator = ',');

}  // namespace rlx::cli
