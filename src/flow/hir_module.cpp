#include "flow/hir_module.h"

#include "ops/matmul.h"
#include "ops/quant.h"

namespace rlx {

Value HirModule::linear(Value x, Value w) {
  Builder b = builder();
  return b(Linear{}, x, b(TransposeWeight{}, w));
}

Value HirModule::linear_stored(Value x, Value w) { return builder()(Linear{}, x, w); }

void HirModule::set_outputs(const std::vector<Value>& values) {
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < values.size(); ++i)
    outputs.push_back({values.size() == 1 ? "output" : "output." + std::to_string(i), values[i]});
  graph_.set_outputs(std::move(outputs));
}

}  // namespace rlx
