/* SPDX-License-Identifier: Apache-2.0
 *
 * Registers of warp roles.
 */
#include "passes/target/machine_model.h"

#include "test/unit/run.h"

static const tc_target *hopper(void)
{
    return tc_target_get("sm_90a");
}

/* The registers that all warps of the block have together. */
static int64_t registers_of_block(unsigned groups, const tc_role_registers *r)
{
    return TC_WARPGROUP_THREADS * (r->producer + groups * r->consumer);
}

START_TEST(splits)
{
    static const tc_role_registers expected[] = {{24, 240}, {32, 160}};
    for (unsigned i = 0; i < 2; i++) {
        tc_role_registers r;
        ck_assert(tc_split_registers(hopper(), 2 + i, TC_ROLE_MIN_REGISTERS,
                                     false, &r));
        ck_assert_int_eq(r.producer, expected[i].producer);
        ck_assert_int_eq(r.consumer, expected[i].consumer);
    }
}
END_TEST

START_TEST(splits_fit_the_register_file)
{
    static const unsigned fewest[] = {TC_ROLE_MIN_REGISTERS,
                                      TC_TRANSPOSER_MIN_REGISTERS};
    for (unsigned groups = 2; groups <= 7; groups++)
        for (unsigned i = 0; i < 4; i++) {
            tc_role_registers r;
            ck_assert(
                tc_split_registers(hopper(), groups, fewest[i / 2], i % 2, &r));
            ck_assert_int_eq(r.producer % TC_REGISTER_STEP, 0);
            ck_assert_int_eq(r.consumer % TC_REGISTER_STEP, 0);
            ck_assert_int_ge(r.producer, fewest[i / 2]);
            ck_assert_int_le(registers_of_block(groups, &r),
                             hopper()->registers_per_sm);
        }
}
END_TEST

/* One group has all registers that it can use, and others cannot lend. */
START_TEST(nothing_to_split)
{
    tc_role_registers r;
    ck_assert(
        !tc_split_registers(hopper(), 1, TC_ROLE_MIN_REGISTERS, false, &r));
    ck_assert(!tc_split_registers(tc_target_get("sm_80"), 2,
                                  TC_ROLE_MIN_REGISTERS, false, &r));
}
END_TEST

/* A producer that would have the fewest keeps a step of each consumer. */
START_TEST(producer_keeps_a_step)
{
    tc_role_registers r;
    ck_assert(tc_split_registers(hopper(), 2, TC_ROLE_MIN_REGISTERS, true, &r));
    ck_assert_int_eq(r.producer, 40);
    ck_assert_int_eq(r.consumer, 232);
}
END_TEST

START_TEST(producer_lends)
{
    tc_role_registers r = {40, 232};
    ck_assert(tc_lend_registers(2, &r));
    ck_assert_int_eq(r.producer, 24);
    ck_assert_int_eq(r.consumer, 240);
    ck_assert(!tc_lend_registers(2, &r));
    r = (tc_role_registers){32, 160}; /* 8 registers are no step of three */
    ck_assert(!tc_lend_registers(3, &r));
    r = (tc_role_registers){168, 240}; /* consumers have the most */
    ck_assert(!tc_lend_registers(2, &r));
}
END_TEST

/* A thread has 255 at most, and no more than its share of the SM. */
START_TEST(most_of_a_thread)
{
    ck_assert_uint_eq(tc_max_registers(hopper(), 4), 255);
    ck_assert_uint_eq(tc_max_registers(hopper(), 16), 128);
    ck_assert_int_eq(tc_expected_consumer_registers(hopper(), 8), 240);
    ck_assert_int_eq(tc_expected_consumer_registers(hopper(), 12), 160);
}
END_TEST

/* A pass that runs alone has a machine too. */
START_TEST(machine_of_no_gpu)
{
    ck_assert_ptr_eq(tc_machine(tc_target_get("cpu")), hopper());
    for (unsigned i = 1; tc_target_at(i); i++) {
        const tc_target *t = tc_target_at(i);
        ck_assert_ptr_eq(tc_machine(t), t);
        ck_assert_uint_gt(t->special_per_cycle, 0);
        ck_assert_uint_gt(t->products_per_cycle, 0);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("machine_model");
    TCase *t = tcase_create("registers");
    tcase_add_test(t, splits);
    tcase_add_test(t, splits_fit_the_register_file);
    tcase_add_test(t, nothing_to_split);
    tcase_add_test(t, producer_keeps_a_step);
    tcase_add_test(t, producer_lends);
    tcase_add_test(t, most_of_a_thread);
    tcase_add_test(t, machine_of_no_gpu);
    suite_add_tcase(s, t);
    return run_suite(s);
}
