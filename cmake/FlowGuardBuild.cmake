# SPDX-License-Identifier: Apache-2.0
# Build rules of the source tree: one static library a folder, named fg_<folder>.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_LINK_WHAT_YOU_USE OFF)

find_package(Threads REQUIRED)

# Flags of our own code; not of those who embed it.
add_library(fg_options INTERFACE)
target_compile_options(fg_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  $<$<BOOL:${FLOWGUARD_WERROR}>:-Werror>
  # Position-independent code still may inline and call its own functions directly: nobody
  # replaces one of them at load time.
  -fno-semantic-interposition
  # The cell table compares and swaps 16 bytes at once.
  $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>:-mcx16>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(fg_options INTERFACE -Wthread-safety)
endif()

# With FLOWGUARD_PRECOMPILE: GoogleTest's headers, parsed once a preset, and with gcc the
# standard library's too.  A source that forgets an include does not pass for it: clang reads
# every source as it stands, and every header in the headers stage of .ci/run.
set(FG_STANDARD_HEADERS
  <algorithm> <array> <atomic> <charconv> <chrono> <cstdint> <cstring> <deque> <functional> <map>
  <memory> <mutex> <optional> <span> <string> <string_view> <thread> <unordered_map> <utility>
  <variant> <vector>)
if(FLOWGUARD_PRECOMPILE)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/empty.cc CONTENT "")
endif()
if(FLOWGUARD_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_library(fg_standard_headers OBJECT ${PROJECT_BINARY_DIR}/empty.cc)
  target_link_libraries(fg_standard_headers PRIVATE fg_options)
  target_precompile_headers(fg_standard_headers PRIVATE ${FG_STANDARD_HEADERS})
  # For ccache, which reads what the preprocessor leaves of the precompiled header; and gcc
  # takes what was precompiled for sources of ours, and warns of the insides of std::string.
  target_compile_options(fg_options INTERFACE -fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
endif()

# A program like the tests, so that its headers are compiled by the same flags.
function(fg_precompile_test_headers)
  add_executable(fg_test_headers EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/empty.cc)
  target_link_libraries(fg_test_headers PRIVATE fg_options GTest::gmock GTest::gtest GTest::gtest_main Threads::Threads)
  target_compile_options(fg_test_headers PRIVATE ${FLOWGUARD_TEST_FLAGS})
  target_precompile_headers(fg_test_headers PRIVATE ${FG_STANDARD_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
endfunction()

# fg_library(FOLDER SOURCES a.cc ... [DEPS fg_base ...] [PRIVATE_DEPS yaml-cpp ...])
function(fg_library folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(fg_${folder} STATIC ${ARG_SOURCES})
    target_include_directories(fg_${folder} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(fg_${folder} PUBLIC ${ARG_DEPS} PRIVATE fg_options ${ARG_PRIVATE_DEPS})
    if(TARGET fg_standard_headers)
      target_precompile_headers(fg_${folder} REUSE_FROM fg_standard_headers)
    endif()
  else()
    add_library(fg_${folder} INTERFACE)
    target_include_directories(fg_${folder} INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(fg_${folder} INTERFACE ${ARG_DEPS})
  endif()
endfunction()

# fg_test(NAME SOURCES a_test.cc ... [DEPS ...] [LABELS long] [TIMEOUT S] [COST S])
# One executable; ctest runs it as one test.  COST: seconds under a sanitizer, so that the
# longest tests start first.
function(fg_test name)
  if(NOT FLOWGUARD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT;COST" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  # gcc 12 sees copies beyond small strings where there are none (its bug 105651).
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds$<SEMICOLON>-Wno-stringop-overflow>)
  target_link_libraries(${name} PRIVATE fg_options ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main Threads::Threads)
  target_compile_options(${name} PRIVATE ${FLOWGUARD_TEST_FLAGS})
  if(FLOWGUARD_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM fg_test_headers)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)  # of builds with sanitizers on machines that do other work too
  endif()
  if(NOT ARG_COST)
    set(ARG_COST 0)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST} LABELS "${ARG_LABELS}")
endfunction()

# fg_fuzzer(NAME SOURCES x_fuzz.cc DEPS ...): libFuzzer with clang; with any
# compiler a test named NAME_replay replays the corpus in tests/fuzz/corpus/NAME.
function(fg_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  if(FLOWGUARD_FUZZ)
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE fg_options ${ARG_DEPS} Threads::Threads -fsanitize=fuzzer)
    if(NOT TARGET fuzzers)
      add_custom_target(fuzzers)
    endif()
    add_dependencies(fuzzers ${name})
    set(replay ${name} -runs=0 ${corpus})
  elseif(FLOWGUARD_TESTS)
    add_executable(${name}_replay ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc)
    target_link_libraries(${name}_replay PRIVATE fg_options ${ARG_DEPS} Threads::Threads)
    set(replay ${name}_replay ${corpus})
  endif()
  if(FLOWGUARD_TESTS)
    add_test(NAME ${name}_replay COMMAND ${replay})
    set_tests_properties(${name}_replay PROPERTIES TIMEOUT 60)
  endif()
endfunction()

function(fg_add_folders)
  foreach(folder ${ARGN})
    if(EXISTS ${PROJECT_SOURCE_DIR}/src/${folder}/CMakeLists.txt)
      add_subdirectory(${PROJECT_SOURCE_DIR}/src/${folder})
    endif()
  endforeach()
endfunction()
