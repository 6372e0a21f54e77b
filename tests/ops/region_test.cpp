// Programs of regions as text: what is refused, and why.
#include "ops/region.h"

#include "base/error.h"
#include "ops/support.h"

namespace rlx {
namespace {

// The reason that the text of a program is refused for.
std::string refusal(std::string_view text) {
  RegionId id;
  try {
    return parse_value(text, id) ? "accepted" : "another form";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::format) << text;
    return e.what();
  }
}

TEST(Region, EachInstructionHasTheOperandsOfItsOp) {
  EXPECT_EQ(refusal("{f32,f32;add(0,1)->2}"), "accepted");
  EXPECT_EQ(refusal("{f32;add(0)->1}"), "region: add: expected 2 operands, found 1");
  EXPECT_EQ(refusal("{f32;unary(0,0):fn=exp->1}"), "region: unary: expected 1 operand, found 2");
  EXPECT_EQ(refusal("{f32,f32;where(0,1)->2}"), "region: where: expected 3 operands, found 2");
  // The flag of an optional operand counts.
  EXPECT_EQ(refusal("{f32,f32;layer_norm(0,1)->2}"), "region: layer_norm: expected 3 operands, found 2");
  EXPECT_EQ(refusal("{f32,f32;layer_norm(0,1):bias=false->2}"), "accepted");
  EXPECT_EQ(refusal("{f32,f32,f32;layer_norm(0,1,2):bias=false->3}"),
            "region: layer_norm: expected 2 operands, found 3");
}

TEST(Region, TheReasonOfARefusalReachesTheReader) {
  EXPECT_EQ(refusal("{f32,f32;add(0,7)->2}"), "region: add reads value 7 of 2");
  EXPECT_EQ(refusal("{f32.row->0}"), "region: expected an input that is no column");
  EXPECT_EQ(refusal("{f32;sort(0)->1}"), "region: sort may not stand in one");
  EXPECT_EQ(refusal("{f32;->0"), "another form");
}

TEST(Region, KeepsAsManyTileInstructionsAsItHas) {
  RegionId id;
  ASSERT_TRUE(parse_value("{f32,f32;add(0,1);unary(2):fn=tanh->3}", id));
  const RegionCode& code = region_code(id);
  ASSERT_EQ(code.instructions, 4);  // two loads, add, tanh
  EXPECT_EQ(code.code[2].op, TileOp::add);
  EXPECT_EQ(code.code[3].op, TileOp::unary);
  const TileProgram again = make_region_code(region_program(id));
  EXPECT_EQ(again.instructions.size(), 4u);
}

}  // namespace
}  // namespace rlx
