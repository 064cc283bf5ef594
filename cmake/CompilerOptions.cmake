# Warnings and the sanitizer switches of the presets. One interface target: foretrace_options.
set(FORETRACE_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")

add_library(foretrace_options INTERFACE)
target_compile_options(foretrace_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                                   -Wno-missing-field-initializers) # designated ones leave the rest out
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # All wrong about std::string + char* in g++ 12 (bug 105651).
  target_compile_options(foretrace_options INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12's stable_sort uses a function it has itself marked deprecated.
  target_compile_options(foretrace_options INTERFACE -Wno-deprecated-declarations)
endif()
if(FORETRACE_WERROR)
  target_compile_options(foretrace_options INTERFACE -Werror)
endif()
if(FORETRACE_SANITIZE)
  target_compile_options(foretrace_options INTERFACE -fsanitize=${FORETRACE_SANITIZE} -fno-omit-frame-pointer
                                                     -fno-sanitize-recover=all)
  target_link_options(foretrace_options INTERFACE -fsanitize=${FORETRACE_SANITIZE})
  # An index behind a vector's end, also where memory is there: what it holds is not the vector's.
  target_compile_definitions(foretrace_options INTERFACE _GLIBCXX_ASSERTIONS)
endif()
find_program(MOLD mold)
if(MOLD AND NOT FORETRACE_STATIC_PREFIX) # the compiler of releases has its own linker
  target_link_options(foretrace_options INTERFACE -fuse-ld=mold)
endif()
find_program(CCACHE ccache)
if(CCACHE)
  # Paths relative to the sources: the module of the wheel, and other clones, share what the release build compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
