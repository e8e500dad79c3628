# SPDX-License-Identifier: Apache-2.0
#
# The programs of test/numerics, test/fuzz and test/bench, and how ctest runs
# them.
numeric_program(numerics_attention numerics/attention.c)
numeric_test(numerics_attention numerics numerics_attention)
numeric_program(numerics_data numerics/data.c)
numeric_test(numerics_data numerics numerics_data)
