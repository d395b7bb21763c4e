# One static library a folder, with the project's warnings and sanitizers.
#
#   stepcast_library(NAME SOURCES ... LINKS ...)
add_library(stepcast_options INTERFACE)
target_include_directories(stepcast_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(stepcast_options INTERFACE -Wall -Wextra -Wconversion -Wshadow)
if(STEPCAST_WERROR)
  target_compile_options(stepcast_options INTERFACE -Werror)
endif()
if(STEPCAST_SANITIZE STREQUAL "address")
  target_compile_options(stepcast_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                                                    -fno-omit-frame-pointer)
  target_link_options(stepcast_options INTERFACE -fsanitize=address,undefined)
elseif(STEPCAST_SANITIZE STREQUAL "thread")
  target_compile_options(stepcast_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(stepcast_options INTERFACE -fsanitize=thread)
endif()

function(stepcast_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC stepcast_options ${ARG_LINKS})
endfunction()
