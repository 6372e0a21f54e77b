// Variant files: program, plan and reports of one executable.
#include <algorithm>

#include "base/build_id.h"
#include "device/program_io.h"
#include "ir/source.h"
#include "runtime/aot_cache.h"

namespace rlx {
namespace {

// Compared as a whole: a file of another build, device, level of instructions or executable is not read further.
std::string variant_identity(const AotName& name, const Backend& backend) {
  ByteWriter out;
  out.number(kProgramFormat);
  out.text(build_id());
  out.text(backend.device().text());
  out.text(backend.features());
  out.text(name.base);
  out.digest(name.key);
  out.text(name.binding.text());
  return out.take();
}

std::string write_reports(const CompileResult& r) {
  ByteWriter out;
  out.number(static_cast<std::uint32_t>(r.dispatch.rows.size()));
  for (const DispatchRow& row : r.dispatch.rows) {
    out.text(row.node);
    out.text(row.op);
    out.number(static_cast<std::uint8_t>(row.kind));
    out.text(row.kernel);
    out.text(row.reason);
  }
  out.number(r.fusion.nodes_before);
  out.number(r.fusion.nodes_after);
  out.number(static_cast<std::uint32_t>(r.fusion.fused.size()));
  for (const FusedNode& f : r.fusion.fused)
    for (const std::string* t : {&f.pass, &f.op, &f.origin}) out.text(*t);
  out.number(static_cast<std::uint32_t>(r.fusion.near_misses.size()));
  for (const NearMiss& m : r.fusion.near_misses)
    for (const std::string* t : {&m.pass, &m.origin, &m.reason}) out.text(*t);
  return out.take();
}

void read_reports(ByteCursor& in, CompileResult& r) {
  r.dispatch.rows.resize(in.count("rows of the dispatch", 17));
  for (DispatchRow& row : r.dispatch.rows) {
    row.node = in.text("node");
    row.op = in.text("op");
    row.kind = static_cast<DispatchKind>(in.index_u8("kind", kDispatchKinds));
    row.kernel = in.text("kernel");
    row.reason = in.text("reason");
  }
  r.fusion.nodes_before = in.size("nodes", 0, INT32_MAX);
  r.fusion.nodes_after = in.size("nodes", 0, INT32_MAX);
  r.fusion.fused.resize(in.count("fused ops", 12));
  for (FusedNode& f : r.fusion.fused)
    for (std::string* t : {&f.pass, &f.op, &f.origin}) *t = in.text("fused op");
  r.fusion.near_misses.resize(in.count("near misses", 12));
  for (NearMiss& m : r.fusion.near_misses)
    for (std::string* t : {&m.pass, &m.origin, &m.reason}) *t = in.text("near miss");
  in.end();
}

// What runs need of a graph: its inputs, from whose sizes the symbols follow.
Graph inputs_of(const Program& p) {
  Graph graph(p.name, Stage::mir);
  Builder b(graph);
  for (const BoundaryEntry& e : p.inputs) b.input(e.name, p.operands[static_cast<std::size_t>(e.operand)].shape);
  return graph;
}

}  // namespace

std::string write_variant(const AotName& name, const CompileResult& result, const Backend& backend) {
  ByteWriter program, plan;
  write_program(program, *result.lir.program);
  write_plan(plan, *result.lir.plan);
  return make_aot_head(AotKind::variant,
                       {{AotSection::identity, variant_identity(name, backend)},
                        {AotSection::program, program.take()},
                        {AotSection::plan, plan.take()},
                        {AotSection::reports, write_reports(result)}},
                       0);
}

CompileResult read_variant(const AotImage& image, std::string_view file, const AotName& name, const Backend& backend,
                           const CompileResult* known) {
  if (image.section(AotSection::identity) != variant_identity(name, backend))
    fail(ErrorCode::format, "{}: made for another executable, build or machine", file);
  CompileResult r;
  const std::string_view program = image.section(AotSection::program);
  if (known != nullptr) {
    ByteWriter mine;
    write_program(mine, *known->lir.program);
    if (mine.bytes() != program) fail(ErrorCode::format, "{}: holds another program", file);
    r = *known;
  } else {
    ByteCursor in(program, file);
    r.lir.program = std::make_shared<const Program>(read_program(in, backend));
    in.end();
    r.mir = std::make_shared<const Graph>(inputs_of(*r.lir.program));
    ByteCursor reports(image.section(AotSection::reports), file);
    read_reports(reports, r);
  }
  ByteCursor in(image.section(AotSection::plan), file);
  r.lir.plan = std::make_shared<const Plan>(read_plan(in, *r.lir.program));
  in.end();
  if (!(r.lir.plan->upper == name.binding))
    fail(ErrorCode::format, "{}: a plan for {}, expected {}", file, r.lir.plan->upper.text(), name.binding.text());
  return r;
}

}  // namespace rlx
