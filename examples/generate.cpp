// Loads a model, answers one question and streams the text.   Usage: generate MODEL QUESTION
#include <rlx/rlx.h>

#include <cstdio>
#include <nlohmann/json.hpp>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fputs("usage: generate MODEL QUESTION\n", stderr);
    return 2;
  }
  rlx::TextModel model(argv[1], rlx::DecoderOptions{});
  const rlx::Json messages = {{{"role", "user"}, {"content", argv[2]}}};
  const auto prompt = model.chat_prompt(messages, nullptr, {{"add_generation_prompt", true}});

  rlx::Sampler sampler({.temperature = 0.0f});  // greedy
  rlx::StreamDecoder text(model.tokenizer(), true);
  rlx::generate(model.decoder(), prompt, 0, sampler, {.max_tokens = 64, .ends = model.ends()},
                [&](std::int32_t id) {
                  std::fputs(text.push(id).c_str(), stdout);
                  std::fflush(stdout);
                });
  std::puts(text.finish().c_str());
  return 0;
} catch (const rlx::Error& e) {
  std::fprintf(stderr, "generate: %s\n", e.what());
  return 1;
}
