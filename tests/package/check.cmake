# cmake -D SOURCE=... -D BUILD=... -D COMPILER=... -P check.cmake
# Installs the build to a scratch prefix and builds the program of this folder against it; then compiles it with the
# source tree as a subdirectory (compiles only: linking would build the whole library once more).
set(scratch ${BUILD}/package)
file(REMOVE_RECURSE ${scratch})
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}: ${status}\n${out}")
  endif()
endfunction()
set(configure ${CMAKE_COMMAND} -S ${SOURCE}/tests/package -G Ninja -D CMAKE_CXX_COMPILER=${COMPILER}
              -D CMAKE_BUILD_TYPE=Debug)

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${scratch}/root)
run(${configure} -B ${scratch}/installed -D CMAKE_PREFIX_PATH=${scratch}/root)
run(${CMAKE_COMMAND} --build ${scratch}/installed)
run(${scratch}/installed/outside)

run(${configure} -B ${scratch}/subdirectory -D RLX_SUBDIRECTORY=${SOURCE})
run(${CMAKE_COMMAND} --build ${scratch}/subdirectory --target CMakeFiles/outside_sources.dir/main.cpp.o)
file(REMOVE_RECURSE ${scratch})
