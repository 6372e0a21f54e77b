// IR text. Whatever it is, the answer is a graph or an Error; a graph prints as text that reads back as the same text,
// and it can be bound.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "ir/parse.h"
#include "ir/print.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const rlx::Graph graph = rlx::parse_graph({reinterpret_cast<const char*>(data), size}, "fuzz");
    const std::string text = rlx::print(graph);
    std::string again;
    try {
      again = rlx::print(rlx::parse_graph(text, "again"));
    } catch (const rlx::Error&) {
    }
    if (again != text) std::abort();
    rlx::DimBinding sizes;
    for (const rlx::Symbol s : rlx::collect_symbols(graph)) sizes.set(s, 2);
    rlx::require_bound(rlx::bind(graph, sizes));
  } catch (const rlx::Error&) {
  }
  return 0;
}
