# The precompiled headers of ATTEST_PRECOMPILE: one for libraries, one for tests. They hold headers of others only,
# which most files read. Who compiles with flags of their own parses for themselves.

# ccache keeps what is compiled so only where the header's macros and time may be trusted; paths below the build
# folder do not count, so that build folders share what they compile.
foreach(language C CXX)
  if(CMAKE_${language}_COMPILER_LAUNCHER MATCHES "(^|/)ccache$")
    list(PREPEND CMAKE_${language}_COMPILER_LAUNCHER
      env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${CMAKE_BINARY_DIR})
  endif()
endforeach()
# Nor may clang write the time into what ccache compares.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")

# Those of fmt, which must be the same for all who read its header.
target_compile_definitions(attest_flags INTERFACE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
set(common_headers <algorithm> <array> <chrono> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional>
  <set> <span> <sstream> <string> <string_view> <unordered_map> <utility> <variant> <vector>
  <fmt/format.h> <tl/expected.hpp>)

# GCC takes a header for position-independent libraries and one for programs, each from its own kind only.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled/library.cc CONTENT "")
add_library(attest_library_headers OBJECT ${CMAKE_BINARY_DIR}/precompiled/library.cc)
target_link_libraries(attest_library_headers PRIVATE attest_flags fmt::fmt tl::expected)
target_precompile_headers(attest_library_headers PRIVATE ${common_headers})

file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled/test.cc CONTENT "int main() {}\n")
add_executable(attest_test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled/test.cc)
target_link_libraries(attest_test_headers PRIVATE attest_flags GTest::gtest_main GTest::gmock fmt::fmt tl::expected)
target_compile_options(attest_test_headers PRIVATE ${test_options})
target_precompile_headers(attest_test_headers PRIVATE ${common_headers} <gmock/gmock.h> <gtest/gtest.h>)
