# `cmake --install` gives the program, the public headers, the library and a package for find_package(foretrace):
#
#   find_package(foretrace 0.1 REQUIRED)
#   target_link_libraries(mine PRIVATE foretrace::foretrace)
#
# The library is shared: what-ifs and formats register themselves, and the linker would drop them from a static one.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(foretrace_shared SHARED $<FILTER:$<TARGET_OBJECTS:foretrace_objects>,EXCLUDE,\\.[gp]ch$>)
set_target_properties(
  foretrace_shared PROPERTIES OUTPUT_NAME foretrace EXPORT_NAME foretrace VERSION ${PROJECT_VERSION}
                              SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINKER_LANGUAGE CXX)
target_link_libraries(foretrace_shared PRIVATE foretrace_options foretrace_dependencies)
target_compile_features(foretrace_shared INTERFACE cxx_std_20)
target_include_directories(foretrace_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/foretrace)
install(TARGETS foretrace RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
install(TARGETS foretrace_shared EXPORT foretrace-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/foretrace DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT foretrace-targets NAMESPACE foretrace:: DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/foretrace-config.cmake.in
                              ${CMAKE_CURRENT_BINARY_DIR}/foretrace-config.cmake INSTALL_DESTINATION ${package_folder})
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/foretrace-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/foretrace-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/foretrace-config-version.cmake
        DESTINATION ${package_folder})
