# SPDX-License-Identifier: Apache-2.0
#
# The programs of test/numerics, test/fuzz and test/bench, and how ctest runs
# them.
numeric_program(numerics_attention numerics/attention.c)
numeric_test(numerics_attention numerics numerics_attention)
numeric_test(numerics_attention_all nightly numerics_attention --nightly 1)
numeric_program(numerics_data numerics/data.c)
numeric_test(numerics_data numerics numerics_data)
numeric_program(numerics_general numerics/general.c)
numeric_test(numerics_general numerics numerics_general)
numeric_program(numerics_semantics numerics/semantics.c)
numeric_test(numerics_semantics numerics numerics_semantics)
numeric_program(numerics_shapes numerics/shapes.c)
numeric_test(numerics_shapes numerics numerics_shapes)
numeric_program(numerics_programs numerics/programs.c numerics/world.c)
numeric_test(numerics_programs numerics numerics_programs)

numeric_program(random_programs fuzz/random_programs.c fuzz/program.c)
numeric_test(random_programs fuzz random_programs --seeds 60)
numeric_test(random_programs_long nightly random_programs --seconds 1000
             --seed 100000 --statements 20)

# Benchmarks: run by hand, or with `ctest -L bench -j1` on a quiet machine.
find_library(OPENBLAS_LIBRARY openblas)
if(OPENBLAS_LIBRARY)
  file(GLOB GEMM_BENCH CONFIGURE_DEPENDS bench/gemm.c)
  foreach(source IN ITEMS bench/attention_cpu.c LISTS GEMM_BENCH)
    get_filename_component(name ${source} NAME_WE)
    numeric_program(bench_${name} ${source})
    target_link_libraries(bench_${name} PRIVATE ${OPENBLAS_LIBRARY})
    target_include_directories(bench_${name} SYSTEM PRIVATE ${LLVM_INCLUDE})
  endforeach()
  numeric_test(bench_attention_cpu bench bench_attention_cpu --goal 50)
endif()
numeric_program(bench_compile_time bench/compile_time.c)
numeric_test(
  bench_compile_time bench bench_compile_time --tilec $<TARGET_FILE:tilec>
  --input test/data/encoder_l0_s128_d64_f32.safetensors --goal-tile 10
  --goal-cold 500)
