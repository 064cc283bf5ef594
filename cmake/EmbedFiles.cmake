# embed_data_files(TARGET ROOT) compiles every data file below ROOT into TARGET: tables (.csv), descriptions of hardware
# (.toml), the parts of the page (.html, .css, .js) and the Python that --code-out writes (.py). They are found by their path
# below ROOT (src/base/data_files.hpp). A new file is found by the glob; a changed one triggers the generator.
function(embed_data_files target root)
  set(patterns)
  foreach(extension csv toml html css js py)
    list(APPEND patterns ${root}/*.${extension})
  endforeach()
  file(GLOB_RECURSE files RELATIVE ${root} CONFIGURE_DEPENDS ${patterns})
  list(SORT files)
  list(TRANSFORM files PREPEND ${root}/ OUTPUT_VARIABLE paths)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${target}_data_files.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DROOT=${root} -DOUTPUT=${output} -P ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
    DEPENDS ${paths} ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
    COMMENT "Embedding data files"
    VERBATIM)
  # Tables are longer than the literals every compiler must take; those we build with take them.
  set_source_files_properties(${output} PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings)
  target_sources(${target} PRIVATE ${output})
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  # Written piece by piece: a file may hold what CMake's lists would split at.
  # The lengths of literals are given by sv: counting the letters of a large table is more than a compiler does in a constant
  # expression.
  file(WRITE ${OUTPUT} "#include \"base/data_files.hpp\"\n\nnamespace foretrace {\n\nstd::span<const DataFile> embedded_files() {\n"
                       "  using std::string_view_literals::operator\"\"sv;\n  static constexpr DataFile kFiles[] = {\n")
  foreach(file IN LISTS FILES)
    file(READ ${ROOT}/${file} content)
    file(APPEND ${OUTPUT} "      {\"${file}\", R\"embedded(${content})embedded\"sv},\n")
  endforeach()
  file(APPEND ${OUTPUT} "  };\n  return kFiles;\n}\n\n}  // namespace foretrace\n")
endif()
