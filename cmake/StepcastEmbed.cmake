# Text files as strings of the program: writes `output`, a source that includes `header` and defines each variable that
# the header declares in `namespace`.
#
#   stepcast_embed(OUTPUT HEADER NAMESPACE [VARIABLE FILE]...)
function(stepcast_embed output header namespace)
  set(text "#include \"${header}\"\n\nnamespace ${namespace} {\n")
  while(ARGN)
    list(POP_FRONT ARGN variable file)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    file(READ ${file} content)
    string(APPEND text "\nconst std::string_view ${variable} = R\"stepcast(${content})stepcast\";\n")
  endwhile()
  string(APPEND text "\n}  // namespace ${namespace}\n")
  file(CONFIGURE OUTPUT ${output} CONTENT "${text}" @ONLY)
endfunction()
