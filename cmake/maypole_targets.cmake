# The only place where compile flags are set.
#
#   maypole_library(name SOURCES ... DEPS ...)   static library maypole_<name>, alias maypole::<name>
#   maypole_binary(name SOURCES ... DEPS ...)    executable in <build>/bin
#   maypole_test(name LABEL unit|threads|sim|integration SOURCES ... DEPS ...)   GoogleTest binary, one ctest per case;
#       threads: a unit test of what has several, which the sanitizer of threads runs
#
# One folder is one target; DEPS are the arrows of docs/ARCHITECTURE.md.

include(GNUInstallDirs)

add_library(maypole_flags INTERFACE)
add_library(maypole::flags ALIAS maypole_flags)
target_compile_features(maypole_flags INTERFACE cxx_std_20)
target_include_directories(maypole_flags INTERFACE ${PROJECT_SOURCE_DIR})
# Designated initialisers leave defaults out on purpose, hence -Wno-missing-field-initializers.
target_compile_options(maypole_flags INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror=switch -Werror=return-type
  $<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast> -fno-omit-frame-pointer)
if(MAYPOLE_WARNINGS_AS_ERRORS)
  target_compile_options(maypole_flags INTERFACE -Werror)
endif()
# The tests are two thirds of the code: half of its compile time is saved by optimising them less and keeping only the lines of their symbols.
set(is_test $<BOOL:$<TARGET_PROPERTY:MAYPOLE_IS_TEST>>)
if(MAYPOLE_SANITIZE)
  target_compile_options(maypole_flags INTERFACE -fsanitize=${MAYPOLE_SANITIZE} -fno-sanitize-recover=all
    $<IF:${is_test},-O0,-O1> $<${is_test}:-g1>)
  target_link_options(maypole_flags INTERFACE -fsanitize=${MAYPOLE_SANITIZE})
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_options(maypole_flags INTERFACE $<${is_test}:-O1> $<${is_test}:-g1>)
endif()

function(maypole_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(maypole_${name} STATIC ${ARG_SOURCES})
  add_library(maypole::${name} ALIAS maypole_${name})
  set_target_properties(maypole_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(maypole_${name} PUBLIC maypole::flags ${ARG_DEPS})
endfunction()

function(maypole_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE maypole::flags ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin
    INSTALL_RPATH "\$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endfunction()

# tests_<label> builds the tests of one label.
foreach(label unit threads sim integration fuzz)
  add_custom_target(tests_${label})
endforeach()

# What tests run under. Not as the ENVIRONMENT of each test: gtest_discover_tests takes lists apart, and only the first entry would hold.
set(MAYPOLE_TEST_LAUNCHER env
  UCX_MEM_EVENTS=n
  UCX_HANDLE_ERRORS=none
  UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${PROJECT_SOURCE_DIR}/tests/sanitizer/tsan.supp
  LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/sanitizer/lsan.supp)

function(maypole_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;DEPS" ${ARGN})
  if(NOT MAYPOLE_BUILD_TESTS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE maypole::flags ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES MAYPOLE_IS_TEST ON RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests
    CROSSCOMPILING_EMULATOR "${MAYPOLE_TEST_LAUNCHER}")
  add_dependencies(tests_${ARG_LABEL} ${name})
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT 300)
endfunction()
