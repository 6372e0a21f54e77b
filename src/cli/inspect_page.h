// The HTML page of a compiled model: one file without references to others, its data as JSON inside.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "compiler/inspection.h"

namespace rlx::cli {

/// What the page holds as JSON, key by key in docs/inspect.md. `stage`: which graph the page shows first.
nlohmann::ordered_json inspection_json(const Inspection& inspection, std::string_view stage);

/// The whole page. Names are hostile: nothing of them is markup or script.
std::string page_html(const Inspection& inspection, std::string_view stage);

/// Text for element content and attribute values of HTML and SVG; control characters become spaces.
std::string markup_text(std::string_view text);

}  // namespace rlx::cli
