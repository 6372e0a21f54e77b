#include "runtime/kernel_profile.h"

#include <algorithm>

#include "compiler/cost.h"
#include "device/view.h"
#include "ops/fused.h"
#include "runtime/weight_store.h"

namespace rlx {

namespace {

const Operand& operand_of(const Program& program, std::int32_t o) {
  return program.operands[static_cast<std::size_t>(o)];
}

const Operand* cache_of(const Program& program, const Call& call) {
  for (const std::int32_t o : call.in)
    if (operand_of(program, o).shape.kind == ShapeKind::kv) return &operand_of(program, o);
  return nullptr;
}

// How much larger the weights of a call are in the store than in the file.
double packed_ratio(const Program& program, const Backend& backend, const Call& call) {
  double packed = 0, plain = 0;
  for (const std::int32_t o : call.in) {
    const Operand& operand = operand_of(program, o);
    if (operand.place != Place::weight) continue;
    const WeightEntry& entry = program.weights[static_cast<std::size_t>(operand.index)];
    packed += static_cast<double>(entry_bytes(entry, backend));
    plain += static_cast<double>(view_bytes(entry.shape.with(entry.dtype), {}));
  }
  return plain > 0 ? packed / plain : 1;
}

}  // namespace

StepWork& StepWork::operator+=(const StepWork& o) {
  bytes += o.bytes;
  for (int u = 0; u < kComputeUnits; ++u) ops[u] += o.ops[u];
  return *this;
}

StepWork step_work(const Program& program, const Backend& backend, const DimBinding& sizes, std::int64_t context) {
  StepWork work;
  for (std::size_t c = 0; c < program.calls.size(); ++c) {
    const Call& call = program.calls[c];
    if (call.phase == Phase::prologue) continue;
    const OpCost cost = call_cost(program, c, sizes, context);
    work.bytes += cost.weight_bytes * packed_ratio(program, backend, call);
    if (cache_of(program, call) != nullptr)
      work.bytes += cost.bytes - cost.weight_bytes;
    else if (cost.weight_bytes > 0)
      work.ops[static_cast<int>(unit_of(program, call))] += cost.ops;
  }
  return work;
}

ComputeUnit unit_of(const Program& program, const Call& call) {
  if (call.in.empty()) return ComputeUnit::f32;
  if (call.kernel != nullptr && call.kernel->isa == Isa::amx) return ComputeUnit::amx;
  if (const Operand* cache = cache_of(program, call))
    return cache->shape.dtype == DType::bf16 ? ComputeUnit::bf16 : ComputeUnit::f32;
  DType x = operand_of(program, call.in[0]).shape.dtype;
  if (call.def->id == op_id(FusedLinear::name))
    if (const auto fused = from_blob<FusedLinear>(call.attrs); fused.prologue()) x = fused.to;
  return x == DType::xq8 ? ComputeUnit::int8 : x == DType::bf16 ? ComputeUnit::bf16 : ComputeUnit::f32;
}

void add_kernel_times(std::vector<KernelTime>& list, const Program& program, const Executor& executor,
                      std::int64_t context) {
  for (std::size_t c = 0; c < program.calls.size(); ++c) {
    const Executor::CallTime& time = executor.call_times()[c];
    if (time.runs == 0) continue;
    const Call& call = program.calls[c];
    const std::string name =
        call.kernel != nullptr ? std::string(call.kernel->name) : fmt::format("reference {}", call.def->name);
    const ComputeUnit unit = unit_of(program, call);
    auto at = std::find_if(list.begin(), list.end(),
                           [&](const KernelTime& k) { return k.kernel == name && k.unit == unit; });
    if (at == list.end()) at = list.insert(list.end(), {name, 0, 0, 0, 0, 0, unit});
    const OpCost cost = call_cost(program, c, executor.sizes(), context);
    const auto runs = static_cast<double>(time.runs);
    at->calls += time.runs;
    at->us += time.us;
    at->wait_us += time.wait_us;
    at->bytes += cost.bytes * runs;
    at->ops += cost.ops * runs;
  }
}

}  // namespace rlx
