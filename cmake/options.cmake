# Compiler flags that hold for every target of this tree; nothing here reaches projects that link rlx.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Time to build counts, and nothing gains from -O3: kernels write their vectors and unrolled loops out.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

include(cmake/dependencies.cmake)
# Headers that only this build reads; who links rlx needs none of them.
foreach(header CLI/CLI.hpp toml++/toml.h)
  string(MAKE_C_IDENTIFIER ${header} variable)
  find_path(RLX_BUILD_${variable} NAMES ${header})
  mark_as_advanced(RLX_BUILD_${variable})
  if(NOT RLX_BUILD_${variable})
    list(APPEND RLX_MISSING ${header})
  endif()
endforeach()
if(RLX_MISSING)
  message(FATAL_ERROR "RLX needs these libraries, which were not found: ${RLX_MISSING}. "
                      "scripts/setup installs them on Debian and Ubuntu; docs/dependencies.md names them.")
endif()

# rlx_base_flags is for the instruction-set units, rlx_flags for everything else.
add_library(rlx_base_flags INTERFACE)
add_library(rlx_flags INTERFACE)
target_link_libraries(rlx_flags INTERFACE rlx_base_flags)
target_compile_options(rlx_base_flags INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wno-missing-field-initializers
  # One result on every machine: fused multiply-adds are written where they are wanted (kernels.md, 2.8).
  -ffp-contract=off
  # g++ 12 sees overlaps and overflows inside std::string and std::vector that are not there (its bugs 105329, 105651,
  # 107852); clang and the sanitizers watch in its place.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(rlx_base_flags INTERFACE -march=x86-64-v2)
endif()
if(RLX_SANITIZE)
  # Kernels validate nothing and read no input: under ASan and UBSan their templates would take minutes a unit to compile.
  # TSan must see them, since they share counters between threads.
  if(RLX_SANITIZE STREQUAL "thread")
    target_compile_options(rlx_base_flags INTERFACE -fsanitize=thread)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The checks that sanitizers insert hide from g++ that a value is set; its warning is then wrong.
    target_compile_options(rlx_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_compile_options(rlx_flags INTERFACE -fsanitize=${RLX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND NOT RLX_SANITIZE STREQUAL "thread")
    # A tenth of the time to compile, for accesses that ASan checks where they happen.
    target_compile_options(rlx_flags INTERFACE -fno-sanitize=object-size)
  endif()
  target_link_options(rlx_flags INTERFACE -fsanitize=${RLX_SANITIZE})
endif()
if(RLX_FUZZ)
  target_compile_options(rlx_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
