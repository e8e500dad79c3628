# SPDX-License-Identifier: Apache-2.0
#
# The libFuzzer targets, 20 seconds each. They need clang and its runtime, and
# are built by it whatever compiles the rest; where it is not to be had they
# are left out, with a message. By hand, for longer:
#
#     cmake --build build --target fuzz_programs
#     build/test/fuzz_parse -max_total_time=3600 CORPUS kernels
add_custom_target(fuzz_programs) # not in `all`: only long tests want them
if(TILEC_SANITIZE)
  return() # they have sanitizers of their own: once is enough
endif()
find_program(FUZZ_CC NAMES clang-22 clang-21 clang-20 clang)
set(FUZZ_FLAGS -std=gnu17 -g -O1 -fsanitize=fuzzer,address,undefined
               -fno-sanitize-recover=all)
if(FUZZ_CC)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/fuzz_try.c
       "int LLVMFuzzerTestOneInput(const char *p, unsigned long n);\n"
       "int LLVMFuzzerTestOneInput(const char *p, unsigned long n)\n"
       "{ return p && n > 9 ? 0 : 0; }\n")
  execute_process(COMMAND ${FUZZ_CC} ${FUZZ_FLAGS} fuzz_try.c -o fuzz_try
                  WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
                  RESULT_VARIABLE FUZZ_FAILED OUTPUT_QUIET ERROR_QUIET)
endif()
if(NOT FUZZ_CC OR FUZZ_FAILED)
  message(STATUS "No clang with libFuzzer: fuzzing is left out")
  return()
endif()

# The objects of sources of the root; each is compiled once for all programs.
function(fuzz_objects out)
  set(objects "")
  foreach(source IN LISTS ARGN)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/fuzz_objects/${source}.o)
    list(APPEND objects ${object})
    get_property(known DIRECTORY PROPERTY FUZZ_OBJECTS)
    if(object IN_LIST known)
      continue()
    endif()
    set_property(DIRECTORY APPEND PROPERTY FUZZ_OBJECTS ${object})
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${FUZZ_CC} ${FUZZ_FLAGS} -I${CMAKE_SOURCE_DIR}
              -isystem${DLPACK_INCLUDE} -MD -MF ${object}.d
              -c ${CMAKE_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${CMAKE_SOURCE_DIR}/${source}
      DEPFILE ${object}.d
      COMMENT "Building ${source} for fuzzing")
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

# NAME: fuzz/fuzz_NAME.c with SOURCES of the root; seeds are in fuzz/seeds/NAME
# or SEEDS, words in fuzz/NAME.dict.
function(fuzz_program name)
  cmake_parse_arguments(PARSE_ARGV 1 F "" "MOST" "SEEDS;SOURCES")
  set(program ${CMAKE_CURRENT_BINARY_DIR}/fuzz_${name})
  fuzz_objects(objects test/fuzz/fuzz_${name}.c ${F_SOURCES})
  add_custom_command(
    OUTPUT ${program}
    COMMAND ${FUZZ_CC} ${FUZZ_FLAGS} ${objects} -o ${program} ${CJSON_LIBRARY}
            -lm -lpthread -ldl
    DEPENDS ${objects}
    COMMENT "Linking fuzz_${name}")
  add_custom_target(fuzz_program_${name} DEPENDS ${program})
  add_dependencies(fuzz_programs fuzz_program_${name})
  if(NOT F_SEEDS)
    set(F_SEEDS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/seeds/${name})
  endif()
  set(dict ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/${name}.dict)
  if(EXISTS ${dict})
    set(words -dict=${dict})
  endif()
  set(corpus ${CMAKE_CURRENT_BINARY_DIR}/corpus_${name})
  file(MAKE_DIRECTORY ${corpus})
  add_test(NAME fuzz_${name}
           COMMAND ${program} -max_total_time=20 -timeout=60
                   -max_len=${F_MOST} ${words} ${corpus} ${F_SEEDS}
           WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(fuzz_${name} PROPERTIES LABELS "fuzz;long")
endfunction()

file(GLOB FUZZ_LAYOUT CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
     ${CMAKE_SOURCE_DIR}/ir/types/layout*.c)
set(FUZZ_CORE ir/base/arena.c ir/base/context.c ir/base/intern.c
              ir/base/escape.c ir/types/type.c lib/status.c lib/dtype.c
              ${FUZZ_LAYOUT})
fuzz_program(safetensors MOST 1024 SOURCES lib/files/safetensors.c lib/files/json.c
             ${FUZZ_CORE})
fuzz_program(mods MOST 300 SOURCES lib/mods/mods_parse.c ${FUZZ_CORE})
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/fuzz_parse.c)
  file(GLOB_RECURSE ir CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
       ${CMAKE_SOURCE_DIR}/ir/*.c)
  fuzz_program(parse MOST 4096 SEEDS ${CMAKE_SOURCE_DIR}/kernels
               ${CMAKE_SOURCE_DIR}/test/ir/roundtrip SOURCES ${ir})
  file(GLOB editor CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
       ${CMAKE_SOURCE_DIR}/tools/editors/*.c)
  fuzz_program(format MOST 4096 SEEDS ${CMAKE_SOURCE_DIR}/kernels
               ${CMAKE_SOURCE_DIR}/test/ir/roundtrip SOURCES ${ir} ${editor})
endif()
# Bundles: what the library without a compiler consists of. The seeds are
# written by the command, so that they are of this version.
set(BUNDLE_SOURCES lib/runtime/no_compiler.c lib/append/append.c
    lib/attention/attention_request.c lib/attention/attention_run.c
    lib/bundle/bundle.c lib/bundle/bundle_find.c lib/bundle/bundle_kernel.c
    lib/bundle/bundle_key.c lib/cache/cache_folder.c lib/cache/code.c
    lib/cache/code_meta.c lib/cache/entry.c lib/cache/record.c lib/dtype.c
    lib/gpu/assemble.c lib/gpu/cuda.c lib/gpu/device.c lib/gpu/gpu_code.c
    lib/gpu/gpu_counters.c lib/gpu/gpu_graph.c lib/gpu/gpu_kernel.c
    lib/gpu/gpu_launch.c lib/gpu/gpu_load.c lib/gpu/gpu_maps.c
    lib/gpu/gpu_profile.c lib/gpu/gpu_variant.c lib/gpu/launch_graph_cache.c
    lib/gpu/ptxas_advisory.c lib/host/host_code.c lib/jit/context.c
    lib/jit/diagnostics.c lib/jit/launch.c lib/kvcache/kvcache_check.c
    lib/kvcache/kvcache_request.c lib/kvcache/kvcache_run.c
    lib/mods/captured.c lib/overlap.c lib/status.c codegen/host/jit/cpus.c
    codegen/host/jit/image_load.c codegen/host/jit/kernel.c
    codegen/host/jit/run.c lib/plan/describe.c lib/plan/kernel.c
    lib/plan/plan_memory.c lib/plan/plan_run.c lib/plan/plan_steps.c
    codegen/host/runtime/pool.c codegen/host/runtime/runtime.c
    codegen/host/runtime/symbols.c codegen/llvm/libm.c passes/target/target.c)
file(GLOB_RECURSE ir CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
     ${CMAKE_SOURCE_DIR}/ir/*.c)
set(seeds ${CMAKE_CURRENT_BINARY_DIR}/seeds_bundle)
file(MAKE_DIRECTORY ${seeds})
fuzz_program(bundle MOST 200000 SEEDS ${seeds} SOURCES ${BUNDLE_SOURCES} ${ir})
add_custom_command(
  OUTPUT ${seeds}/kernel.tilecb ${seeds}/attention.tilecb
  COMMAND tilec compile ${CMAKE_SOURCE_DIR}/kernels/tutorial/01_vector_add.tile
          --emit=bundle --target cpu -o ${seeds}/kernel.tilecb
  COMMAND tilec compile attention --emit=bundle --target cpu --dims 16 --types
          f32 --mask causal -o ${seeds}/attention.tilecb
  DEPENDS tilec)
add_custom_target(fuzz_seeds_bundle DEPENDS ${seeds}/kernel.tilecb)
add_dependencies(fuzz_program_bundle fuzz_seeds_bundle)
