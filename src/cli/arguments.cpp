#include "cli/arguments.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/nearest.h"

namespace rlx::cli {
namespace {

// "-pg,--x" as the parser wants it: names of several letters have two dashes there.
std::string parser_names(const std::string& names, std::set<std::string>& single_dash) {
  std::string out;
  for (const std::string& n : split_list(names)) {
    const bool lone = n.size() > 2 && n[0] == '-' && n[1] != '-';
    if (lone) single_dash.insert(n);
    out += (out.empty() ? "" : ",") + (lone ? "-" + n : n);
  }
  return out;
}

std::string longest_name(const std::string& names) {
  std::string best;
  for (const std::string& n : split_list(names))
    if (n.size() > best.size()) best = n;
  return best;
}

}  // namespace

struct Arguments::Impl {
  CLI::App app;
  std::string command;
  std::set<std::string> single_dash;
  std::vector<std::string> names;
  std::vector<std::pair<std::string, bool>>
      required;  // name of the positional, and whether it was given

  CLI::Option* option(const std::string& flag, const std::string& help, CLI::callback_t take) {
    for (const std::string& n : split_list(flag)) names.push_back(n);
    CLI::Option* o = app.add_option(parser_names(flag, single_dash), std::move(take), help);
    o->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    return o;
  }

  [[noreturn]] void unexpected(const std::string& word) const {
    if (word.size() < 2 || word[0] != '-')
      fail(ErrorCode::usage, "{}: unexpected argument \"{}\"; see `{} --help`", command, word,
           command);
    const std::string flag = word.substr(0, word.find('='));
    const std::string near = nearest(flag, names);
    fail(ErrorCode::usage, "{}: unknown flag {}{}; see `{} --help`", command, flag,
         near.empty() ? "" : ", did you mean " + near + "?", command);
  }
};

Arguments::Arguments(std::string command, std::string summary, std::string examples)
    : impl_(std::make_unique<Impl>()) {
  impl_->command = std::move(command);
  impl_->app.name(impl_->command);
  impl_->app.description(std::move(summary));
  impl_->app.footer("\nExamples:\n" + std::move(examples));
  impl_->app.set_help_flag("-h,--help", "Print this help and exit");
  impl_->app.allow_extras();
  impl_->app.get_formatter()->column_width(34);
  impl_->names = {"--help"};
}

Arguments::~Arguments() = default;

void Arguments::positional(const std::string& name, std::string& value, const std::string& help,
                           bool required) {
  impl_->required.emplace_back(name, !required);
  const std::size_t index = impl_->required.size() - 1;
  impl_->app.add_option(name, CLI::callback_t([this, index, &value](const CLI::results_t& r) {
                          value = r.back();
                          impl_->required[index].second = true;
                          return true;
                        }),
                        help);
}

void Arguments::positionals(const std::string& name, std::vector<std::string>& values,
                            const std::string& help) {
  impl_->app
      .add_option(name, CLI::callback_t([&values](const CLI::results_t& r) {
                    values = r;
                    return true;
                  }),
                  help)
      ->expected(1, 1 << 20)
      ->allow_extra_args();
}

void Arguments::flag(const std::string& names, bool& value, const std::string& help) {
  for (const std::string& n : split_list(names)) impl_->names.push_back(n);
  impl_->app.add_flag(parser_names(names, impl_->single_dash), value, help);
}

void Arguments::text(const std::string& names, std::optional<std::string>& value,
                     const std::string& help) {
  impl_
      ->option(names, help,
               [&value](const CLI::results_t& r) {
                 value = r.back();
                 return true;
               })
      ->type_name("TEXT");
}

void Arguments::texts(const std::string& names, std::vector<std::string>& values,
                      const std::string& help) {
  impl_
      ->option(names, help,
               [&values, flag = longest_name(names)](const CLI::results_t& r) {
                 values.clear();
                 for (const std::string& one : r) {
                   if (one.empty() || one.front() == ',' || one.back() == ',' || one.find(",,") != std::string::npos)
                     fail(ErrorCode::usage, "{}: expected values separated by commas, found \"{}\"", flag, one);
                   for (std::string& part : split_list(one)) values.push_back(std::move(part));
                 }
                 return true;
               })
      ->type_name("LIST")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void Arguments::repeated(const std::string& names, std::vector<std::string>& values, const std::string& help) {
  impl_
      ->option(names, help,
               [&values](const CLI::results_t& r) {
                 values = r;
                 return true;
               })
      ->type_name("TEXT")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void Arguments::integer(const std::string& names, std::optional<std::int64_t>& value,
                        IntegerRange range, const std::string& help) {
  impl_
      ->option(names, help,
               [&value, range, flag = longest_name(names)](const CLI::results_t& r) {
                 value = parse_integer(flag, r.back(), range);
                 return true;
               })
      ->type_name("N");
}

void Arguments::number(const std::string& names, std::optional<double>& value, NumberRange range,
                       const std::string& help) {
  impl_
      ->option(names, help,
               [&value, range, flag = longest_name(names)](const CLI::results_t& r) {
                 value = parse_number(flag, r.back(), range);
                 return true;
               })
      ->type_name("X");
}

Arguments::Outcome Arguments::parse(std::vector<std::string> arguments) {
  for (std::string& a : arguments)
    if (impl_->single_dash.contains(a.substr(0, a.find('=')))) a.insert(0, "-");
  std::reverse(arguments.begin(), arguments.end());  // the parser takes them from the back
  try {
    impl_->app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return Outcome::help;
  } catch (const CLI::ParseError& e) {
    fail(ErrorCode::usage, "{}: {}; see `{} --help`", impl_->command, e.what(), impl_->command);
  }
  if (const std::vector<std::string> left = impl_->app.remaining(); !left.empty())
    impl_->unexpected(left.front());
  for (const auto& [name, given] : impl_->required)
    if (!given)
      fail(ErrorCode::usage, "{}: {} is missing; see `{} --help`", impl_->command, name,
           impl_->command);
  return Outcome::run;
}

std::string Arguments::help() const { return impl_->app.help(); }

}  // namespace rlx::cli
