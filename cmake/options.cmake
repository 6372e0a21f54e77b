# Compiler flags that hold for every target of this tree; nothing here reaches projects that link rlx.
find_package(Threads REQUIRED)

add_library(rlx_flags INTERFACE)
target_compile_options(rlx_flags INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wno-missing-field-initializers
  # One result on every machine: fused multiply-adds are written where they are wanted (kernels.md, 2.8).
  -ffp-contract=off)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(rlx_flags INTERFACE -march=x86-64-v2)
endif()
if(RLX_SANITIZE)
  target_compile_options(rlx_flags INTERFACE -fsanitize=${RLX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(rlx_flags INTERFACE -fsanitize=${RLX_SANITIZE})
endif()
if(RLX_FUZZ)
  target_compile_options(rlx_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
