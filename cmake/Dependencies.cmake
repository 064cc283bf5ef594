# Third-party libraries, all from Debian packages (scripts/setup installs them). One interface target for the whole
# library: foretrace_dependencies. Wheels bundle the shared ones (auditwheel repair).
find_package(Threads REQUIRED)
find_package(simdjson REQUIRED)
find_package(fmt REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)

add_library(foretrace_dependencies INTERFACE)
target_link_libraries(foretrace_dependencies INTERFACE PkgConfig::ISAL PkgConfig::ZSTD simdjson::simdjson fmt::fmt
                                                       SQLite::SQLite3 Threads::Threads)
