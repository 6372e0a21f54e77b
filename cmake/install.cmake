# cmake --install: include/rlx, the library, the program, and the package that find_package(rlx) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rlx)

# The public headers include those of src/ by their place there, so src/ keeps its shape in a folder of its own.
install(DIRECTORY include/rlx DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rlx/src FILES_MATCHING PATTERN "*.h"
        PATTERN "cli" EXCLUDE PATTERN "backends" EXCLUDE)
target_include_directories(rlx INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                                         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/rlx/src>)
install(TARGETS rlx EXPORT rlxTargets)
if(TARGET rlx_cli)
  install(TARGETS rlx_cli)
endif()
install(FILES LICENSE TYPE DOC)

install(EXPORT rlxTargets NAMESPACE rlx:: DESTINATION ${package_dir})
configure_package_config_file(cmake/rlxConfig.cmake.in rlxConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(rlxConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rlxConfig.cmake ${PROJECT_BINARY_DIR}/rlxConfigVersion.cmake
        DESTINATION ${package_dir})
install(FILES cmake/dependencies.cmake RENAME rlxDependencies.cmake DESTINATION ${package_dir})
