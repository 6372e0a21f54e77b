#include "base/affinity.h"

#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <thread>

#include "base/cpu_features.h"
#include "base/error.h"

namespace rlx {
namespace {

constexpr int kMostProcessors = 1 << 16;

// What a pinned thread could use before: a team that it starts counts those.
thread_local std::vector<int> allowed_before;  // empty: not pinned

/// The mask of the calling thread. It may be larger than cpu_set_t on big machines: grows until the kernel accepts it.
std::vector<int> current_mask() {
  std::vector<int> processors;
  for (int count = 1024; count <= kMostProcessors; count *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(count));
    if (set == nullptr) break;
    const std::size_t size = CPU_ALLOC_SIZE(static_cast<std::size_t>(count));
    const bool ok = sched_getaffinity(0, size, set) == 0;
    for (int i = 0; ok && i < count; ++i)
      if (CPU_ISSET_S(static_cast<std::size_t>(i), size, set)) processors.push_back(i);
    CPU_FREE(set);
    if (ok) break;
  }
  if (processors.empty()) processors.push_back(0);
  return processors;
}

bool set_mask(const std::vector<int>& processors) {
  const std::size_t count = static_cast<std::size_t>(*std::max_element(processors.begin(), processors.end())) + 1;
  cpu_set_t* set = CPU_ALLOC(count);
  if (set == nullptr) return false;
  const std::size_t size = CPU_ALLOC_SIZE(count);
  CPU_ZERO_S(size, set);
  for (const int p : processors) CPU_SET_S(static_cast<std::size_t>(p), size, set);
  const bool ok = sched_setaffinity(0, size, set) == 0;
  CPU_FREE(set);
  return ok;
}

std::optional<int> processor_number(std::string_view text) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < 0) return std::nullopt;
  return n;
}

bool set_by_program = false;

std::vector<int>& chosen() {
  static std::vector<int> processors = [] {
    const char* text = std::getenv("RLX_AFFINITY");
    return parse_affinity("RLX_AFFINITY", text == nullptr ? "" : text);
  }();
  return processors;
}

}  // namespace

std::vector<int> parse_affinity(std::string_view name, std::string_view text) {
  if (text.empty() || text == "none") return {};
  if (text == "cores") return core_processors();
  std::vector<int> processors;
  const std::vector<int> allowed = allowed_processors();
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const std::size_t dash = item.find('-');
    const std::optional<int> first = processor_number(item.substr(0, dash)),
                             last = dash == std::string_view::npos ? first : processor_number(item.substr(dash + 1));
    if (!first || !last || *first > *last)
      fail(ErrorCode::usage, "{}: expected none, cores or processors as 0-3,8, found \"{}\"", name, text);
    for (int p = *first; p <= *last; ++p) {
      if (std::find(allowed.begin(), allowed.end(), p) == allowed.end())
        fail(ErrorCode::usage, "{}: expected processors that this process may use ({}), found {}", name,
             fmt::join(allowed, ","), p);
      if (std::find(processors.begin(), processors.end(), p) != processors.end())
        fail(ErrorCode::usage, "{}: expected each processor once, found {} twice in \"{}\"", name, p, text);
      processors.push_back(p);
    }
    if (comma == std::string_view::npos) return processors;
    rest.remove_prefix(comma + 1);
  }
}

void set_affinity(std::vector<int> processors) {
  chosen() = std::move(processors);
  set_by_program = true;
}
std::string_view affinity_source() { return set_by_program ? "--affinity" : "RLX_AFFINITY"; }
const std::vector<int>& affinity() { return chosen(); }

std::vector<int> allowed_processors() { return allowed_before.empty() ? current_mask() : allowed_before; }

struct Pinned::Before {
  std::vector<int> mask;
  std::vector<int> outer;  // allowed_before of that time
  std::thread::id thread;
};

Pinned::Pinned(int processor) {
  auto before = std::make_unique<Before>(Before{current_mask(), allowed_before, std::this_thread::get_id()});
  if (!set_mask({processor})) return;
  before_ = std::move(before);
  if (allowed_before.empty()) allowed_before = before_->mask;
}

Pinned::~Pinned() {
  if (before_ == nullptr || before_->thread != std::this_thread::get_id()) return;
  set_mask(before_->mask);
  allowed_before = before_->outer;
}

}  // namespace rlx
