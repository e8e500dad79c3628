# SPDX-License-Identifier: Apache-2.0
#
# The programs of test/numerics, test/fuzz and test/bench, and how ctest runs
# them.
#
# Sanitizers make all of it slow: fewer random cases there. What they see of
# shipped kernels only by hand has the label `asan_long`.
if(TILEC_SANITIZE)
  set(KERNELS --stages 2 --warps 8)
  set(KERNELS_SM_90A ${KERNELS} --every 4)
  set(MASKS --seeds 40)
  set(FP8 --cases 1)
  set(CACHES 12)
  set(PROGRAMS 20)
  set(SEEDS 15)
  set(BATCHES 100)
else()
  set(KERNELS "")
  set(KERNELS_SM_90A "")
  set(MASKS "")
  set(FP8 "")
  set(CACHES 24)
  set(PROGRAMS 60)
  set(SEEDS 60)
  set(BATCHES 40)
endif()
numeric_program(numerics_attention numerics/attention.c numerics/cases.c)
numeric_test(numerics_attention numerics numerics_attention)
numeric_test(numerics_attention_split numerics numerics_attention --split 1)
numeric_test(numerics_attention_split_all nightly numerics_attention --split 1
             --nightly 1)
numeric_test(numerics_attention_all nightly numerics_attention --nightly 1)
numeric_program(numerics_attention_bwd numerics/attention_bwd.c
                numerics/cases.c)
numeric_test(numerics_attention_bwd numerics numerics_attention_bwd)
numeric_test(numerics_attention_bwd_all nightly numerics_attention_bwd
             --nightly 1)
numeric_program(numerics_gradients numerics/gradients.c numerics/dual.c)
numeric_test(numerics_gradients "numerics;asan" numerics_gradients)
numeric_test(numerics_gradients_more nightly numerics_gradients --seed 1000
             --seeds 3000 --size 16)
numeric_program(numerics_captured numerics/captured.c)
numeric_test(numerics_captured "numerics;asan" numerics_captured)
numeric_program(numerics_masks numerics/masks.c numerics/pipeline.c)
numeric_test(numerics_masks "numerics;asan" numerics_masks ${MASKS})
numeric_test(numerics_masks_more nightly numerics_masks --seed 1000
             --seeds 4000)
numeric_program(numerics_offsets numerics/offsets.c numerics/pipeline.c)
numeric_test(numerics_offsets "numerics;asan" numerics_offsets)
numeric_test(numerics_offsets_more nightly numerics_offsets --seed 1000
             --seeds 1500)
numeric_program(numerics_ranges numerics/ranges.c)
numeric_test(numerics_ranges numerics numerics_ranges)
numeric_program(numerics_lists numerics/lists.c numerics/pipeline.c)
numeric_test(numerics_lists numerics numerics_lists)
numeric_test(numerics_lists_more nightly numerics_lists --seed 2 --cases 20)
numeric_program(numerics_fp8 numerics/fp8.c)
numeric_test(numerics_fp8 "numerics;asan" numerics_fp8 ${FP8})
numeric_test(numerics_fp8_more nightly numerics_fp8 --seed 100 --cases 60)
numeric_program(numerics_quantize numerics/quantize.c)
numeric_test(numerics_quantize "numerics;asan" numerics_quantize)
numeric_program(numerics_append numerics/append.c)
numeric_test(numerics_append "numerics;asan" numerics_append)
numeric_program(numerics_delta numerics/delta.c)
numeric_test(numerics_delta "numerics;asan" numerics_delta)
numeric_program(numerics_kvcache numerics/kvcache.c numerics/kvcache/batch.c
                numerics/kvcache/places.c numerics/kvcache/check.c)
numeric_test(numerics_kvcache "numerics;asan" numerics_kvcache --cases
             ${CACHES})
numeric_test(numerics_kvcache_more nightly numerics_kvcache --seed 2
             --cases 1000)
numeric_program(attention_fits nvptx/attention_fits.c)
numeric_test(attention_fits ir attention_fits)
numeric_test(attention_fits_all nightly attention_fits --all 1)
numeric_program(numerics_plans numerics/plans.c)
numeric_test(numerics_plans "numerics;asan" numerics_plans)
numeric_program(numerics_data numerics/data.c)
numeric_test(numerics_data "numerics;asan" numerics_data)
numeric_program(numerics_general numerics/general.c)
numeric_test(numerics_general "numerics;asan" numerics_general)
numeric_program(numerics_std numerics/std.c)
numeric_test(numerics_std "numerics;asan" numerics_std)
numeric_test(numerics_std_all nightly numerics_std --every 1)
numeric_program(numerics_storage numerics/storage.c)
numeric_test(numerics_storage "numerics;asan_long" numerics_storage)
numeric_program(numerics_products numerics/products.c)
numeric_test(numerics_products "numerics;asan" numerics_products)
numeric_program(numerics_packed numerics/packed.c)
numeric_test(numerics_packed "numerics;asan" numerics_packed)
numeric_program(numerics_tutorial numerics/tutorial.c numerics/pipeline.c)
numeric_test(numerics_tutorial "numerics;asan" numerics_tutorial)
numeric_program(numerics_semantics numerics/semantics.c)
numeric_test(numerics_semantics numerics numerics_semantics)
numeric_program(numerics_shapes numerics/shapes.c)
numeric_test(numerics_shapes "numerics;asan_long" numerics_shapes)
numeric_program(numerics_large numerics/large.c)
numeric_test(numerics_large numerics numerics_large)
set_tests_properties(numerics_large PROPERTIES SKIP_RETURN_CODE 77)
numeric_program(numerics_programs numerics/programs.c
                numerics/programs_control.c numerics/programs_memory.c
                numerics/programs_values.c numerics/world.c)
numeric_test(numerics_programs "numerics;asan" numerics_programs)

numeric_program(random_programs fuzz/random_programs.c fuzz/memory.c
                fuzz/program.c fuzz/gen.c fuzz/gen_ops.c fuzz/gen_memory.c
                fuzz/gen_effects.c fuzz/gen_storage.c)
numeric_test(random_programs "fuzz;asan" random_programs --seeds ${PROGRAMS})
numeric_test(random_programs_ops fuzz random_programs --ops 1 --seeds 1000)
numeric_test(random_programs_long nightly random_programs --seconds 1000
             --seed 100000 --statements 20)

# Mutants of machine-level programs; a minute of them. Left to itself, without
# sanitizers, it finds crashes only.
numeric_program(machine_programs fuzz/machine_programs.c fuzz/attempt.c
                fuzz/mutant.c fuzz/texts.c)
numeric_test(machine_programs "fuzz;asan" machine_programs --count ${BATCHES}
             --out ${CMAKE_CURRENT_BINARY_DIR} kernels test ir/LANGUAGE.md)

# Benchmarks are programs for a quiet machine, never tests (bench/README.md).
find_library(OPENBLAS_LIBRARY openblas)
if(OPENBLAS_LIBRARY)
  foreach(name IN ITEMS attention_cpu gemm)
    numeric_program(bench_${name} bench/${name}.c)
    target_link_libraries(bench_${name} PRIVATE ${OPENBLAS_LIBRARY})
    target_include_directories(bench_${name} SYSTEM PRIVATE ${LLVM_INCLUDE})
  endforeach()
endif()
numeric_program(bench_compile_time bench/compile_time.c)
numeric_program(bench_growth bench/growth.c unit/growth/texts.c)
numeric_program(bench_launch bench/launch.c)
numeric_program(bench_launch_cpu bench/launch_cpu.c)
numeric_program(bench_lsp bench/lsp.c)
numeric_program(bench_accuracy bench/accuracy.c)

# Machine-level programs, run on the host (codegen/interp). Sanitizers, which
# make that seven times as slow, see fewer schedules and one target.
numeric_program(machine_kernels machine/kernels.c machine/kernels_rows.c
                machine/problem.c machine/items.c)
numeric_test(machine_kernels machine machine_kernels ${KERNELS})
numeric_test(machine_kernels_sm_90a "machine;asan" machine_kernels --target
             sm_90a ${KERNELS_SM_90A})
if(TILEC_SANITIZE)
  numeric_test(machine_kernels_sm_90a_more asan_long machine_kernels --target
               sm_90a ${KERNELS})
endif()
numeric_test(machine_kernels_all nightly machine_kernels --all 1)
numeric_test(machine_kernels_sm_90a_all nightly machine_kernels --target sm_90a
             --all 1)
# Products of 8 bits by mma.sync.
numeric_test(machine_kernels_sm_89 "machine;asan" machine_kernels --target
             sm_89 --only fp8 ${KERNELS})
numeric_program(machine_groups machine/groups.c machine/problem.c machine/items.c)
numeric_test(machine_groups machine machine_groups)
numeric_program(machine_apart machine/apart.c machine/problem.c machine/items.c)
numeric_test(machine_apart machine machine_apart)
numeric_program(machine_mutants machine/mutants.c machine/mutate.c
                machine/rules_copies.c machine/rules_roles.c
                machine/rules_programs.c machine/rules_marks.c
                machine/problem.c machine/items.c)
numeric_test(machine_mutants machine machine_mutants --of 3)
numeric_test(machine_mutants_all nightly machine_mutants)
numeric_program(machine_loops machine/loops.c)
numeric_test(machine_loops machine machine_loops)
numeric_program(machine_roles machine/roles.c)
numeric_test(machine_roles machine machine_roles)
numeric_test(machine_roles_all nightly machine_roles --all 1)
numeric_program(machine_schedules machine/schedules.c)
numeric_test(machine_schedules machine machine_schedules)
numeric_program(machine_orders machine/orders.c)
numeric_test(machine_orders machine machine_orders --seeds 24)
numeric_test(machine_orders_more nightly machine_orders --seed 1000 --seeds
             1000)
numeric_program(machine_random machine/random.c fuzz/memory.c fuzz/program.c
                fuzz/gen.c fuzz/gen_ops.c fuzz/gen_memory.c fuzz/gen_effects.c
                fuzz/gen_storage.c machine/plan.c)
numeric_test(machine_random "machine;asan" machine_random --seeds ${SEEDS})
