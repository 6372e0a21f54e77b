// What a broken template is told.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "text/template/chat.h"

namespace rlx {
namespace {

std::string message_of(const std::string& source) {
  try {
    Template::parse(source, "m.gguf: chat_template");
  } catch (const TemplateError& e) {
    EXPECT_EQ(e.code(), ErrorCode::format);
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(TemplateMessages, name_the_end_and_the_origin) {
  EXPECT_EQ(message_of("{{ a +"), "m.gguf: chat_template:1:7: unexpected end of the template");
}

TEST(TemplateMessages, cut_and_escape_what_they_quote) {
  const std::string message = message_of("{% " + std::string(5000, 'x') + " %}");
  EXPECT_LT(message.size(), 200u);
  EXPECT_NE(message.find("xxx...'"), std::string::npos) << message;
  EXPECT_NE(message_of("{{ \xFF }}").find("\\xff"), std::string::npos);
}

TEST(TemplateMessages, a_chat_template_says_whose_it_is) {
  const ChatTemplate chat("{{ a b }}", "", "", "m.gguf: chat_template");
  try {
    chat.caps();
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("m.gguf: chat_template:1:6: ")) << e.what();
  }
}

}  // namespace
}  // namespace rlx
