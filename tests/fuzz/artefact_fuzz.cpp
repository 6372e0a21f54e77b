// Any bytes as a file of the AOT cache: the head of an image, or a program with a plan. It is refused with a proper
// message, or it is written again as the same bytes, and a small program that was taken runs.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "device/program_io.h"
#include "device/view.h"
#include "runtime/aot_image.h"
#include "runtime/backends.h"
#include "runtime/executor.h"
#include "runtime/weight_store.h"

namespace {

using namespace rlx;  // NOLINT: a program of one file

constexpr std::int64_t kMostRunBytes = 4 << 20;

void read_image(std::string_view bytes, AotKind kind) {
  const auto image = parse_aot_image(std::string(bytes), static_cast<std::int64_t>(bytes.size()), kind, "fuzz");
  std::size_t sum = 0;
  for (const auto& [id, content] : image->sections) sum += content.size();
  RLX_CHECK(sum <= bytes.size());
}

// Everything that a run needs, or too much of it.
class Memory {
 public:
  std::byte* get(std::int64_t bytes) {
    total_ += bytes;
    if (bytes < 0 || total_ > kMostRunBytes) return nullptr;
    blocks_.emplace_back(static_cast<std::size_t>(round_up(bytes, 64)) + 64);
    const auto address = reinterpret_cast<std::uintptr_t>(blocks_.back().data());
    return blocks_.back().data() + (64 - address % 64) % 64;
  }

 private:
  std::int64_t total_ = 0;
  std::vector<std::vector<std::byte>> blocks_;
};

void run(const Program& program, const Plan& plan, const Backend& backend) {
  if (!program.states.empty() || plan.threads > 2) return;
  Memory memory;
  Executor::Bindings bindings;
  for (const WeightEntry& w : program.weights) {
    bindings.weights.push_back(memory.get(entry_bytes(w, backend)));
    if (bindings.weights.back() == nullptr) return;
  }
  std::vector<const void*> inputs;
  for (const BoundaryEntry& e : program.inputs) {
    inputs.push_back(memory.get(plan.bytes[static_cast<std::size_t>(e.operand)]));
    if (inputs.back() == nullptr) return;
  }
  const std::int64_t stride = round_up(std::max<std::int64_t>(plan.scratch_per_worker, 64), 64);
  Executor::Memory m;
  m.arena = memory.get(plan.arena_bytes);
  m.scratch = memory.get(stride * plan.threads);
  m.scratch_stride = stride;
  m.shared = memory.get(plan.shared_bytes);
  if (m.arena == nullptr || m.scratch == nullptr || m.shared == nullptr) return;
  Workers workers(plan.threads);
  Executor executor(std::make_shared<const Program>(program), plan, std::move(bindings));
  try {
    executor.run(plan.upper, inputs.data(), m, workers);
  } catch (const Error&) {
    // A reference that finds an index outside its range.
  }
}

void read_artefact(std::string_view bytes, const Backend& backend) {
  ByteCursor in(bytes, "fuzz");
  const Program program = read_program(in, backend);
  ByteWriter again;
  write_program(again, program);
  RLX_CHECK(again.bytes() == bytes.substr(0, in.offset()));
  RLX_CHECK(!program.text().empty());
  const std::size_t at = in.offset();
  const Plan plan = read_plan(in, program);
  ByteWriter plan_again;
  write_plan(plan_again, plan);
  RLX_CHECK(plan_again.size() == in.offset() - at);
  RLX_CHECK(!plan.text(program).empty());
  run(program, plan, backend);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 4) {
      case 0:
        read_image(bytes, AotKind::variant);
        break;
      case 1:
        read_image(bytes, AotKind::weights);
        break;
      case 2:
        read_artefact(bytes, find_backend(Device::reference()));
        break;
      default:
        read_artefact(bytes, find_backend(Device::cpu()));
    }
  } catch (const Error& e) {
    RLX_CHECK(std::string_view(e.what()).starts_with("fuzz: offset "), e.what());
  }
  return 0;
}
