#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tilec info mask: masks by blocks, which way attention takes, what is missing.
. "$2/test/cli/expect.inc"

expect 0 info mask causal --q-len 1000
err_is_empty
out_has "causal: 1000 queries, 1000 keys, blocks of 128x128"
out_has "64 blocks: 28 full, 8 partial, 28 empty (43.8 %)"
out_has "50.0 % of all pairs are seen; every query surely sees a key: its own position"
out_has "over keys: ranges, 36 blocks visited: the loop is cut at its end"
out_has "over queries: ranges, 36 blocks visited: the loop is cut at its start"
[ "$(sed -n 8,10p out)" = "#+......
##+.....
###+...." ] || failed "the map is wrong"

# Values in the expression, and captured ones.
expect 0 info mask 'document & sliding_window(w=200)' --q-len 2000 \
    --kv-len 1500 --block 64x128 'offsets=[0,300,1000]'
out_has "301 queries see no key, the first is 1699"
out_has "2000 queries, 1500 keys, blocks of 64x128"
out_has "8 full, 57 partial, 319 empty"
out_has "over queries: ranges, 65 blocks visited"
expect 0 info mask sink_window --q-len 2048 sink=4 mask.w=256
out_has "the loop jumps from one range to the next: 3 of them"
expect 0 info mask prefix_lm_batch --q-len 256 --batch 1 'prefixes=[0,256]'
out_has "4 blocks: 4 full, 0 partial, 0 empty"

expect 0 info mask 'causal_from & padding' --q-len 256 --kv-len 1024 \
    --batch 1 'offset=[512]' 'lens=[0,600]'
out_has "over keys: ranges, 10 blocks visited: the loop is cut at its end"
out_has "over queries: ranges, 10 blocks visited: the loop is cut at its start"
expect 0 info mask 'valid_from & local_window_bottom_right(left=255, right=0)' \
    --q-len 512 --kv-len 1024 'starts=[700]'
out_has "over keys: ranges, 6 blocks visited: the loop is cut at both ends"
expect 0 info mask packed --q-len 512 'q_starts=[0,128,512]' --kv-len 1024 \
    'k_starts=[0,512,1024]'
out_has "over queries: ranges, 16 blocks visited: the loop is cut at both ends"
expect 0 info mask 'packed_local(left=2000, right=0)' --q-len 512 \
    'q_starts=[0,128,512]' --kv-len 1024 'k_starts=[0,512,1024]'
out_has "over keys: ranges, 13 blocks visited: the loop is cut at both ends"

expect 0 info mask tree --q-len 300 'ends=[300,300,3]'
grep -q "sees a key$" out || failed "what is not known was proved"
expect 0 info mask \
    'morton_natten(width=32, height=32, kernel_width=5, kernel_height=5)' \
    --q-len 1024
out_has "over keys: ranges, 64 blocks visited, 24 of them empty: the loop"

# What only a list can say.
expect 0 info mask 'global_positions & causal' --q-len 512 \
    'is_global=[1,0,0]xi8'
out_has "over keys: list: which steps this leaves empty is not known"
out_has "masks.tile:"

# Wide ones are drawn smaller.
expect 0 info mask causal --q-len 100000
out_has "a character for 8x8 blocks"
[ "$(tail -1 out | wc -c)" = 99 ] || failed "the map is too wide"

expect 0 info mask causal --q-len 1000 -o mask.svg
out_is_empty
grep -q '<svg xmlns' mask.svg && grep -q '</svg>' mask.svg ||
    failed "no picture"
[ "$(grep -c 'class="partial"' mask.svg)" = 8 ] || failed "not every block"
expect 1 info mask causal --q-len 10 -o nowhere/mask.svg
err_has "nowhere/mask.svg"

# As data: blocks, both ways, and the keys of each query as runs.
expect 0 info mask 'causal | sink_window' --q-len 10 --kv-len 20 --block 8x16 \
    sink=2 w=1 --json
err_is_empty
out_has '"schema":"tilec.mask","version":1,"expression":"causal | sink_window"'
out_has '"q_len":10,"kv_len":20,"q_side":8,"k_side":16,"rows":2,"columns":2'
expect 0 info mask sink_window --q-len 10 --block 8 sink=1 mask.w=2 --json
out_has '"blocks":["+.","++"]'
out_has '"elements":[[0,1],[0,2],[0,3],[0,1,2,4],[0,1,3,5],[0,1,4,6],[0,1,5,7],[0,1,6,8],[0,1,7,9],[0,1,8,10]]'
out_has '"ways":["over keys: ranges, '
out_has '"over queries: ranges, '
expect 0 info mask prefix_lm_batch --q-len 3 --batch 1 'prefixes=[0,2]' --json
out_has '"elements":[[0,2],[0,2],[0,3]]'
expect 0 info mask 'document & causal' --q-len 4 'offsets=[0,1,3]' --json
out_has '"elements":[[0,1],[1,2],[1,3],[3,4]]'
expect 0 info mask causal --q-len 3000 --json -o mask.json
out_is_empty
grep -q '"rows":24,"columns":24' mask.json || failed "no blocks in mask.json"
grep -q '"elements"' mask.json && failed "9 million pairs are written"
expect 1 info mask causal --q-len 10 --json -o nowhere/mask.json
err_has "nowhere/mask.json"

expect 1 info mask caussal --q-len 10
err_has 'there is no mask function `caussal`; did you mean `causal`?'
out_is_empty
expect 1 info mask document --q-len 10
err_has 'the mask reads `offsets`, a tensor<[?] x i32>: give it as offsets=VALUE'
expect 1 info mask 'document' --q-len 10 'offsets=[0,1]xi8'
err_has "offsets"
expect 2 info mask
err_has 'expected a mask, such as `causal`'
expect 2 info mask causal
err_has "expected --q-len"
expect 2 info mask causal --q-len -5
err_has '--q-len is `-5`, expected a number from 1 to 1073741823'
expect 2 info mask causal --q-len 5 --block 100x100
err_has '--block is `100x100`, expected sides such as 128 or 128x64'
expect 2 info mask causal --q-len 1000000 --block 8
err_has "blocks are too many to show"
expect 2 info mask document --q-len 10 'offsets=[0,1'
err_has 'argument `offsets=[0,1`'
expect 2 info mask document --q-len 10 'offsets=[0,x]'
err_has 'argument `offsets=[0,x]`'
expect 2 info mask document --q-len 10 'offsets=[0,300]xi8'
err_has 'argument `offsets=[0,300]xi8`'
finish
