// Attributes of all ops, through the tables of their fields.
#include <algorithm>

#include "ir/op.h"

namespace rlx {

std::string OpDef::print(const AttrBlob& attrs) const {
  const AttrBlob standard = defaults();
  std::string text;
  for (const AttrField& f : fields())
    if (!f.type->equal(attrs.data() + f.offset, standard.data() + f.offset)) {
      text += ' ';
      text += f.name;
      text += '=';
      text += f.type->print(attrs.data() + f.offset);
    }
  return text;
}

bool OpDef::set(AttrBlob& attrs, std::string_view key, std::string_view value) const {
  for (const AttrField& f : fields())
    if (f.name == key) return f.type->parse(value, attrs.data() + f.offset);
  return false;
}

std::vector<std::string> OpDef::attributes() const {
  std::vector<std::string> names;
  for (const AttrField& f : fields()) names.emplace_back(f.name);
  return names;
}

std::string OpDef::expects(std::string_view attribute) const {
  for (const AttrField& f : fields())
    if (f.name == attribute) return f.type->described();
  return {};
}

void OpDef::bind_dims(AttrBlob& attrs, const DimBinding& binding) const {
  if (!has_dims) return;
  for (const AttrField& f : fields())
    if (f.type->bind_dims != nullptr) f.type->bind_dims(attrs.data() + f.offset, binding);
}

void OpDef::collect_dims(const AttrBlob& attrs, std::vector<Symbol>& out) const {
  if (!has_dims) return;
  for (const AttrField& f : fields())
    if (f.type->collect_dims != nullptr) f.type->collect_dims(attrs.data() + f.offset, out);
}

void OpDef::visit_graphs(AttrBlob& attrs, const std::function<void(GraphRef&)>& visit) const {
  if (!has_graphs) return;
  for (const AttrField& f : fields()) {
    if (!f.type->is_graph) continue;
    GraphRef ref;
    __builtin_memcpy(&ref, attrs.data() + f.offset, sizeof(ref));
    if (!ref) continue;
    visit(ref);
    __builtin_memcpy(attrs.data() + f.offset, &ref, sizeof(ref));
  }
}

}  // namespace rlx
