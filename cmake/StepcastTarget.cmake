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

# The headers that most files of a target parse anyway; each file still includes what it uses (a test compiles every
# header alone).
function(stepcast_precompile name)
  # Readers and reports compile twice as fast unoptimised under the sanitizers, and are not what their tests wait for.
  if(STEPCAST_SANITIZE STREQUAL "address" AND NOT name MATCHES "stepcast_(sim|topology|models|parallelism|validation)$|validation_tests")
    target_compile_options(${name} PRIVATE -O0 -g1)
  endif()
  if(STEPCAST_PCH)
    target_precompile_headers(${name} PRIVATE <algorithm> <filesystem> <map> <optional> <string> <vector>
                              <fmt/format.h> <nlohmann/json.hpp> ${ARGN})
  endif()
endfunction()

function(stepcast_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC stepcast_options fmt::fmt nlohmann_json::nlohmann_json ${ARG_LINKS})
  stepcast_precompile(${name})
endfunction()
