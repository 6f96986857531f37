# Included by CMake right after llama.cpp's project() call (CMAKE_PROJECT_llama.cpp_INCLUDE).
# llama.cpp's "common" library serves its own command-line tools; the Python binding forces it on
# but needs nothing of it. A normal variable hides the forced cache entry: 74 objects instead of 178.
set(LLAMA_BUILD_COMMON OFF)
