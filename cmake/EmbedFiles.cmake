# embed_files(TARGET FOLDER PATTERN NAMESPACE FUNCTION) compiles the files of FOLDER that match PATTERN into TARGET, as
#
#   namespace NAMESPACE { std::span<const std::pair<std::string_view, std::string_view>> FUNCTION(); }   // (stem, text)
#
# in order of name. A new file is found by the glob; a changed one triggers the generator.
function(embed_files target folder pattern namespace function)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/${pattern})
  list(SORT files)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded/${function}.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DOUTPUT=${output} -DNAMESPACE=${namespace} -DFUNCTION=${function} -P
            ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
    DEPENDS ${files} ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
    COMMENT "Embedding ${folder}"
    VERBATIM)
  # Tables are longer than the literals every compiler must take; those we build with take them.
  set_source_files_properties(${output} PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings)
  target_sources(${target} PRIVATE ${output})
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  set(text "#include <array>\n#include <span>\n#include <string_view>\n#include <utility>\n\nnamespace ${NAMESPACE} {\n\n")
  string(APPEND text "std::span<const std::pair<std::string_view, std::string_view>> ${FUNCTION}();\n")
  string(APPEND text "std::span<const std::pair<std::string_view, std::string_view>> ${FUNCTION}() {\n")
  # With their lengths: to count the letters of a large table is more than a compiler does in a constant expression.
  string(APPEND text "  using std::string_view_literals::operator\"\"sv;\n")
  list(LENGTH FILES count)
  string(APPEND text "  static constexpr std::array<std::pair<std::string_view, std::string_view>, ${count}> kFiles = {{\n")
  foreach(file IN LISTS FILES)
    get_filename_component(stem ${file} NAME_WLE)
    file(READ ${file} content)
    string(APPEND text "      {\"${stem}\", R\"embedded(${content})embedded\"sv},\n")
  endforeach()
  string(APPEND text "  }};\n  return kFiles;\n}\n\n}  // namespace ${NAMESPACE}\n")
  file(WRITE ${OUTPUT} "${text}")
endif()
