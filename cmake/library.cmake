# The library is every source below src/ but the command line; folders are globbed, so adding a file edits no list.
file(GLOB_RECURSE RLX_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cpp)
file(GLOB_RECURSE RLX_CLI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.cpp)
list(REMOVE_ITEM RLX_SOURCES ${RLX_CLI_SOURCES})
list(FILTER RLX_SOURCES EXCLUDE REGEX "\\.simd\\.cpp$")

# x.simd.cpp is compiled once per instruction-set level, each time with RLX_ISA_LEVEL naming its namespace;
# x.avx2.cpp (and the like) is compiled for that level only.
set(RLX_ISA_LEVELS baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND RLX_ISA_LEVELS avx2 avx512 avx512_bf16)
  # For processors of before 2013: its vectors of sixteen are built from small ones, which costs -O2 more time than others.
  set(RLX_FLAGS_baseline -O1)
  set(RLX_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2)
  set(RLX_FLAGS_avx512 ${RLX_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mprefer-vector-width=512)
  set(RLX_FLAGS_avx512_bf16 ${RLX_FLAGS_avx512} -mavx512bf16)
endif()
file(GLOB_RECURSE RLX_SIMD_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.simd.cpp)
set(RLX_ISA_OBJECTS)
set(RLX_SIMD_HEADERS simd.h simd_math.h table.h)
list(TRANSFORM RLX_SIMD_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/src/backends/cpu/)
foreach(level ${RLX_ISA_LEVELS})
  set(sources ${RLX_SIMD_SOURCES})
  foreach(source ${RLX_SOURCES})
    if(source MATCHES "\\.${level}\\.cpp$")
      list(APPEND sources ${source})
      list(REMOVE_ITEM RLX_SOURCES ${source})
    endif()
  endforeach()
  if(sources AND RLX_KERNELS_FROM)
    # Sanitizers leave kernels as they are (options.cmake), so those of another build serve as well.
    foreach(source ${sources})
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
      list(APPEND RLX_ISA_OBJECTS ${RLX_KERNELS_FROM}/CMakeFiles/rlx_isa_${level}.dir/${name}${CMAKE_CXX_OUTPUT_EXTENSION})
    endforeach()
  elseif(sources)
    add_library(rlx_isa_${level} OBJECT ${sources})
    target_include_directories(rlx_isa_${level} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_definitions(rlx_isa_${level} PRIVATE RLX_ISA_LEVEL=${level} RLX_ISA_${level}=1)
    # g++ 12 takes the deliberately undefined operands inside its AVX-512 intrinsics for mistakes of the caller.
    target_compile_options(rlx_isa_${level} PRIVATE ${RLX_FLAGS_${level}}
                           $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    # -march of rlx_base_flags comes first on the command line; the level's -m flags add to it.
    target_link_libraries(rlx_isa_${level} PRIVATE $<BUILD_INTERFACE:rlx_base_flags> rlx::fmt)
    # The intrinsics alone are a second of each unit's time.
    target_precompile_headers(rlx_isa_${level} PRIVATE ${RLX_SIMD_HEADERS})
    list(APPEND RLX_ISA_OBJECTS $<TARGET_OBJECTS:rlx_isa_${level}>)
  endif()
endforeach()

if(RLX_KERNELS_FROM)
  if(NOT EXISTS ${RLX_KERNELS_FROM}/CMakeCache.txt)
    message(FATAL_ERROR "The kernels come from ${RLX_KERNELS_FROM}, which is no build yet: "
                        "cmake --preset release && cmake --build --preset release --target rlx_kernels")
  endif()
  set_source_files_properties(${RLX_ISA_OBJECTS} PROPERTIES EXTERNAL_OBJECT ON)
else()
  add_custom_target(rlx_kernels DEPENDS ${RLX_ISA_OBJECTS})
endif()
add_library(rlx STATIC ${RLX_SOURCES} ${RLX_ISA_OBJECTS})
add_library(rlx::rlx ALIAS rlx)
target_include_directories(rlx PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
target_compile_features(rlx PUBLIC cxx_std_20)
target_compile_definitions(rlx PRIVATE PCRE2_CODE_UNIT_WIDTH=8 RLX_VERSION="${PROJECT_VERSION}")
target_link_libraries(rlx PUBLIC Threads::Threads rlx::fmt rlx::nlohmann
                          PRIVATE rlx::pcre2-8 rlx::utf8proc rlx::xxhash $<BUILD_INTERFACE:rlx_flags>)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 13 takes the moved-from alternatives of the decoder's std::variant for uninitialised strings (its bug 105562).
  set_source_files_properties(src/text/tokenizer/tokenizer.cpp PROPERTIES COMPILE_OPTIONS -Wno-maybe-uninitialized)
endif()

# Headers and the templates behind them are most of a small source's compile time, so they are read once for the library and
# once for the program, and the sources of a folder compile in groups (a unity build):
# about half of the time of single sources.
# Names in anonymous namespaces are unique in these folders, but for the sources of RLX_ALONE, whose names would meet a
# neighbour's. The presets debug and tsan compile every source by itself and so find missing includes.
target_precompile_headers(rlx PRIVATE <algorithm> <array> <cstdint> <functional> <map> <memory> <optional> <span> <string>
                          <string_view> <vector> <fmt/format.h>)
set(RLX_GROUPED base cli cli/commands compiler compiler/passes flow flow/blocks formats ir models ops runtime tensor
                text/template text/tokenizer)
set(RLX_ALONE base/fmt_bodies cli/allocations cli/inspect_json ops/interpret ops/matmul tensor/dim text/tokenizer/regex
              text/tokenizer/tokenizer)
set(RLX_GROUP_SIZE 16)
function(rlx_group_sources target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(folder ${RLX_GROUPED})
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
    # Each group that reads nlohmann/json.hpp pays its templates, 5 s: its sources stand together.
    set(plain ${sources})
    foreach(source ${sources})
      file(STRINGS ${source} includes REGEX "^#include <nlohmann/json.hpp>")
      if(includes)
        list(REMOVE_ITEM plain ${source})
        list(APPEND plain ${source})
      endif()
    endforeach()
    set(count 0)
    foreach(source ${plain})
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/src OUTPUT_VARIABLE name)
      string(REGEX REPLACE "\\.cpp$" "" name ${name})
      if(name IN_LIST RLX_ALONE OR name MATCHES "\\.simd$")
        continue()
      endif()
      string(REPLACE "/" "_" group "${folder}")
      math(EXPR index "${count} / ${RLX_GROUP_SIZE}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${group}_${index}")
      math(EXPR count "${count} + 1")
    endforeach()
  endforeach()
endfunction()
if(RLX_GROUP)
  rlx_group_sources(rlx)
endif()

if(RLX_CLI_SOURCES)
  add_executable(rlx_cli ${RLX_CLI_SOURCES})
  set_target_properties(rlx_cli PROPERTIES OUTPUT_NAME rlx RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_link_libraries(rlx_cli PRIVATE rlx rlx_flags)
  # What the page of `rlx inspect --format html` draws itself with.
  set(RLX_PAGE ${PROJECT_BINARY_DIR}/generated/cli/page/text.h)
  file(GLOB RLX_PAGE_FILES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/page/*.js ${PROJECT_SOURCE_DIR}/src/cli/page/*.css)
  add_custom_command(OUTPUT ${RLX_PAGE} COMMAND ${CMAKE_COMMAND} -D OUT=${RLX_PAGE} -D "FILES=${RLX_PAGE_FILES}"
                     -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
                     DEPENDS ${RLX_PAGE_FILES} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  target_sources(rlx_cli PRIVATE ${RLX_PAGE})
  target_include_directories(rlx_cli PRIVATE ${PROJECT_BINARY_DIR}/generated)
  target_compile_definitions(rlx_cli PRIVATE RLX_VERSION="${PROJECT_VERSION}")
  target_precompile_headers(rlx_cli PRIVATE <functional> <map> <memory> <string> <vector> <fmt/format.h> <nlohmann/json.hpp>)
  # Flags and tables of text: compiled for the time that it takes, as tests are.
  target_compile_options(rlx_cli PRIVATE $<$<CONFIG:Release>:-O1>)
  if(RLX_GROUP)
    rlx_group_sources(rlx_cli)
  endif()
  if(NOT RLX_SANITIZE)
    target_link_options(rlx_cli PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endif()
