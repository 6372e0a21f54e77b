// Constants in the text form: short ones as values, others as digest and base64.
#pragma once

#include <string>
#include <string_view>

#include "ir/constant.h"

namespace rlx {

/// "{0.5, 1}", or "xxh3=<32 digits> base64=<RFC 4648>" for more than 16 values, block formats and NaN. `with_data`
/// false: a long one is its digest only.
std::string constant_text(const ConstantData& data, bool with_data = true);

/// The inverse for a constant of a shape. Errors (format): another count of values or bytes, a value that its dtype
/// does not have, bytes of another digest, sizes that are symbols.
std::shared_ptr<const ConstantData> parse_constant(std::string_view text, const Shape& shape);

}  // namespace rlx
