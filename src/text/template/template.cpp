#include "text/template/template.h"

#include "text/template/evaluator.h"

namespace rlx {

Template Template::parse(std::string_view source, std::string name) {
  return Template(jinja::parse_program(source, std::move(name)));
}

RenderResult Template::render(const Json& variables, const RenderOptions& options) const {
  return jinja::Evaluator(*program_, options).run(variables);
}

const std::string& Template::name() const { return program_->name; }

}  // namespace rlx
