# The standard library's and fmt's headers, compiled once: they are half of what a compiler does for a file of ours.
# No header of this project is among them, so that changing one compiles only the files that include it. Files still
# include what they use; `cmake -DFORETRACE_PCH=OFF` (as clang-tidy's compile commands have it) shows one that does not.
option(FORETRACE_PCH "Compile the common system headers once" ON)
set(CMAKE_PCH_INSTANTIATE_TEMPLATES ON)

set(foretrace_common_headers
    <algorithm> <array> <charconv> <cmath> <cstdint> <functional> <map> <memory> <optional> <set> <span>
    <string> <string_view> <tuple> <unordered_map> <utility> <variant> <vector> <fmt/format.h> <tl/expected.hpp>)

# precompile_headers(TARGET [HEADER…]): the common ones, and those TARGET asks for in addition.
function(precompile_headers target)
  if(FORETRACE_PCH)
    target_precompile_headers(${target} PRIVATE ${foretrace_common_headers} ${ARGN})
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang") # the same file each time, for the compiler cache
      target_compile_options(${target} PRIVATE -Xclang -fno-pch-timestamp)
    endif()
  endif()
endfunction()
