#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tilec bench and tilec tune, on the CPU target and without running for GPUs.
. "$2/test/cli/expect.inc"

TILEC_CACHE_DIR=$folder/cache
export TILEC_CACHE_DIR
shape="--shape 1x2x70x16 --runs 2 --progress 0"
ab="a=random:40x24xf32 b=random:24x33xf32 c=zeros:40x33xf32"

# is_json: each line of the output is an object that has these names.
is_json() {
    python3 -c 'import json, sys
rows = [json.loads(line) for line in open("out")]
assert rows
for row in rows:
    for name in sys.argv[1:]:
        assert name in row, name' "$@" 2>>err || failed "$last: JSON without $*"
}

# Attention.
expect 0 bench attention $shape --target cpu
err_is_empty
out_has "attention 1x2x70x16 bf16, mask none, score none"
out_has "0.0006272 GFLOP (the 100.0 % of pairs that are seen)"
out_has "checked: all that 4 programs of the CPU target give"
out_has "TFLOP/s"
expect 0 bench attention $shape --target cpu --mask causal --kv-heads 1 --dv 24 --kv-length 50 --dtype f32
out_has "attention 1x2/1x70/50x16/24 f32, mask causal"
# Half of 50 x 50 and its diagonal, and 20 rows that see all.
out_has "(the 65.0 % of pairs that are seen)"
expect 0 bench attention $shape --target cpu --mask 'sliding_window(w=7)'
out_has "(the 9.6 % of pairs that are seen)"
expect 0 bench attention $shape --target cpu --score alibi slopes=random:2xf32 --seed 5
expect 2 bench attention $shape --target cpu --score alibi
err_has "slopes"
expect 1 bench attention $shape --target cpu --mask cousal
err_has "cousal"

# Attention over a cache.
decode="decode --batch 3 --heads 4 --kv-heads 2 --length 70 --head-dim 16 --runs 2 --target cpu"
expect 0 bench $decode
err_is_empty
out_has "decode 3x4/2x1 on 70, D=16, bf16 over bf16, mask none, score none"
out_has "checked: 3 of 3 sequences against the CPU target"
out_has "GB/s  attention"
out_has "schedule, once a step"
expect 0 bench $decode --page-size 16 --queries 3 --dv 24 --mask causal --dtype f16 --type f8e4m3 --json
is_json workload median_us schedule_us gbytes_per_second caches checked_sequences error
out_has "decode 3x4/2x3 on 70, D=16/24, f16 over f8e4m3 in pages of 16, mask causal"
# 3 x 2 x 70 rows of 40 bytes.
out_has '"bytes":16800'
expect 0 bench $decode --score alibi slopes=random:4xf32 --piece 128 --seed 3
expect 2 bench $decode --score alibi
err_has "slopes"
expect 1 bench $decode --mask cousal
err_has "cousal"
expect 2 bench $decode --kv-heads 3
err_has "4 --heads are not a multiple of 3 --kv-heads"
expect 2 bench $decode --length 0
err_has "--length is \`0\`, expected 1 to"
expect 2 bench $decode --shape 1x1x1x1
err_has "--shape: \`bench decode\` has none"
expect 2 bench attention $shape --target cpu --page-size 16
err_has "--page-size is for \`bench decode\`"

# Any kernel; dots are counted: 2 * 40 * 24 * 33, in tiles of 64.
expect 0 bench matmul $ab --target cpu --runs 2
out_has "0.000524"
out_has "(its dots)"
expect 0 bench softmax x=random:9x9xf32 y=like:x --target cpu --runs 2
out_has "FLOP: it has no dots"
expect 0 bench softmax x=random:9x9xf32 y=like:x --target cpu --runs 2 --flops 1000 --check-seconds 0
out_has "(as given)"
out_has "checked: nothing"
expect 0 bench matmul $ab --target cpu --json
is_json median_us tflops gbytes_per_second error flops checked workload
cat >add.tile <<'END2'
// Changes what it is given; and one whose trips are data.
kernel @twice(%x: tensor<[?] x f32>) grid(cdiv(size(%x, 0), 16)) {
  %i = program_id(0) * 16
  %a = load %x[%i +: 16] boundary(0)
  store %x[%i +: 16], %a + %a boundary(0)
}
kernel @turns[N: int = 1](%x: tensor<[?] x f32>) grid(1) {
  %y = for %i = 0 to N carry(%y0 = 1.0) {
    %z = for %k = 0 to 1000000 carry(%z0 = %y0) {
      yield %z0 * 0.5 + 1.0
    }
    yield %z
  }
  store %x[0 +: 16], splat(%y, tile<16 x f32>) boundary(0)
}
kernel @late[N: int = 30](%x: tensor<[?] x f32>) grid(1) {
  %y = for %i = 0 to N * 100000 carry(%y0 = 1.0) {
    yield %y0 * 0.5 + 1.0
  }
  store %x[0 +: 16], splat(%y, tile<16 x f32>) boundary(0)
}
kernel @sum(%x: tensor<[?] x f32>, %y: tensor<[?] x f32>) grid(cdiv(size(%x, 0), 16)) {
  %a = load %x[program_id(0) * 16 +: 16] boundary(0)
  %p = base(%y)
  %s = sum(%a, axis=0)
  %old = atomic %p, %s kind(add)
}
END2
expect 0 bench add.tile@twice x=random:1000xf32 --target cpu --runs 2
expect 0 bench add.tile@twice x=random:100000xf32 --target cpu --runs 2 --check-seconds 0.000001
out_has " of 6250 programs of the CPU target's grid"
# Sums of all programs are not to be had from some.
expect 0 bench add.tile@sum x=random:1000xf32 y=zeros:1xf32 --target cpu --runs 2 --check-seconds 0.000001 --tolerance 1e-3
out_has "checked: all that 63 programs"

# Sweeps.
expect 0 bench attention $shape --target cpu --sweep BM=16,32 --sweep BN=16,0 --timeout 600
out_has "BM=16 BN=16"
out_has "BM=32 BN=16"
out_has "BM=32 BN=0   does not compile: attention_fwd.tile:"
err_is_empty
expect 0 bench attention $shape --target cpu --sweep BM=16,32 --json --timeout 600
is_json median_us variant
[ "$(wc -l <out)" = 2 ] || failed "$last: not two lines"
# A variant that does not end is stopped, the others are not.
expect 1 bench add.tile@turns x=zeros:16xf32 --target cpu --sweep N=1,100000000 --timeout 2 --runs 1
out_has "N=100000000  FAILED: not done after 2 s"
# A "sweep" that changes the result is found out.
expect 1 bench add.tile@turns x=zeros:16xf32 --target cpu --sweep N=0,1 --runs 1 --timeout 600
out_has "N=0      WRONG: x: relative error"
expect 1 bench matmul $ab --target cpu --sweep BM=0,3 --timeout 600
out_has "does not compile"

# Without a GPU nothing is run; this is said.
for more in '' '--sweep BM=64,128'; do
    expect 3 bench attention --shape 1x1x64x64 --target sm_80 $more
    out_has "FAILED: there is no NVIDIA driver"
done

# The command line.
expect 2 bench
err_has "expected \`attention\` or a program"
expect 2 bench attention
err_has "attention needs a --shape"
expect 2 bench attention --shape 4x32x4096
err_has "expected BxHxMxD, as 4x32x4096x64"
expect 2 bench attention --shape 1x6x70x16 --kv-heads 4
err_has "6 heads are not a multiple of 4 --kv-heads"
expect 0 bench attention $shape --target cpu --dtype f8e4m3
out_has "f8e4m3, mask none"
expect 2 bench attention $shape --dtype b16
err_has "--dtype is \`b16\`"
expect 2 bench matmul $ab --mask causal
err_has "--mask is for \`bench attention\`"
expect 2 bench matmul a=random:40x24xf33
err_has "argument \`a=random:40x24xf33\`"
expect 2 bench matmul $ab --sweep BM
err_has "--sweep BM: expected NAME=VALUE,VALUE..."
expect 2 bench matmul $ab --sweep warps=33
expect 2 bench matmul $ab --sweep tiles=some
err_has "tiles none, static or dynamic"
expect 2 bench matmul $ab --tiles some
err_has "--tiles is \`some\`, expected none, static or dynamic"
expect 2 bench matmul $ab --sweep BM=16 --sweep BM=32
expect 2 bench matmul $ab --sweep BM=16 -D BM=32
err_has "gives BM a value as well"
expect 2 bench matmul $ab --runs 0
err_has "expected 1 to 1000"
expect 2 bench matmul $ab --tolerance x
err_has "--tolerance is \`x\`"
expect 1 bench nowhere.tile x=1
err_has "nowhere.tile: No such file or directory"
expect 1 bench matmul a=random:40x24xf32 b=random:25x33xf32 c=zeros:40x33xf32 --target cpu
err_has "the columns of a must be as many as the rows of b"

# tune: written, merged with what is there, left alone where it is damaged.
expect 0 tune matmul $ab --target cpu --sweep BM=8 --sweep BN=8 --sweep BK=8 --dry-run --config t.json
out_has "1 of 1 variants would be timed"
[ ! -e t.json ] || failed "$last: it wrote"
cat >t.json <<'END2'
{"kernel": "late", "note": "kept",
 "also": [{"splits": 1, "use": {"pair": 1}}], "configs": [
  {"target": "sm_80", "use": {"N": 128, "warps": 4}},
  {"target": "cpu", "use": {"N": 50}}]}
END2
cp t.json before.json
late="add.tile@late x=zeros:16xf32 --target cpu --config t.json"
expect 0 tune $late --sweep N=1000 --timeout 600
out_has "nothing is faster, left as it is"
cmp -s t.json before.json || failed "$last: it wrote"
expect 0 tune $late --sweep N=200,2 --timeout 600
out_has 't.json: {"target": "cpu", "use": {"N": 2}}'
expect 0 tune $late --sweep N=1 --min-length 5 --timeout 600
python3 - <<'PY' 2>>err || failed "$last: $(cat t.json)"
import json
f = json.load(open("t.json"))
assert f["kernel"] == "late" and f["note"] == "kept", f
assert f["also"] == [{"splits": 1, "use": {"pair": 1}}], f
assert f["configs"] == [
    {"target": "sm_80", "use": {"N": 128, "warps": 4}},
    {"target": "cpu", "use": {"N": 2}},
    {"target": "cpu", "length": 5, "use": {"N": 1}}], f
PY
ls t.json.* 2>/dev/null && failed "$last: it left a temporary file"
for text in '{"kernel": "matmul", "configs": [' '[]' '{"kernel": "matmul"}' \
    '{"kernel": "softmax", "configs": []}' \
    '{"kernel": "matmul", "configs": [1]}' \
    '{"kernel": "matmul", "configs": []} x'; do
    echo "$text" >bad.json
    expect 1 tune matmul $ab --target cpu --sweep BM=8 --config bad.json
    err_has "bad.json: "
    err_has "it is left as it is"
    [ "$(cat bad.json)" = "$text" ] || failed "$last: it wrote over $text"
done
expect 1 tune $late --sweep N=1 --config nowhere/t.json --timeout 600
err_has "nowhere/t.json: No such file or directory"

# What asks for too much is left out before it is loaded.
expect 0 tune attention --shape 1x2x70x64 --target sm_80 --sweep BM=64 --sweep BN=64 --sweep warps=4 --sweep stages=2 --sweep ptxas=2 --dry-run --config a.json
out_has '{"target": "sm_80", "dtype": "bf16", "d": 64, "dv": 64, "mask": "none", "use": {"BM": 64, "BN": 64, "warps": 4, "stages": 2, "ptxas": 2}}'
# The entry has all that was measured: also what only the present one says.
expect 0 tune attention --shape 1x2x70x64 --target sm_80 --sweep BM=64 -D BN=32 --dry-run
grep -q '"use": {"BM": 64, "BN": 32, "warps": [0-9]*, "stages": [0-9]*[},]' out ||
    failed "$last: the entry is not whole"
expect 0 tune attention --shape 1x2x70x64 --target sm_90a --sweep BM=64 --sweep BN=64 --sweep tiles=static --dry-run
grep -q '"use": {"BM": 64, "BN": 64, "tiles": "static"' out ||
    failed "$last: no tiles in the entry"
# Clauses of the schedule are searched like parameters.
expect 0 tune attention --shape 1x2x70x64 --target sm_90a --sweep for.pingpong=none,once --sweep kernel.raster=plain --dry-run
grep -q '"use": {"for.pingpong": "none", "kernel.raster": "plain"' out ||
    failed "$last: no clauses in the entry"
expect 0 tune attention --shape 1x2x70x16 --target cpu --dry-run --mask causal
out_has "BM=128 BN=128"
out_has '"mask": "masked"'
expect 0 tune attention --shape 1x2x70x16 --target cpu --dry-run --score relative_bias
out_has '"mask": "none", "score": "scored"'
# Scores with a bias have a configuration of their own.
long="--shape 1x1x2048x64 --dtype bf16 --target sm_90a --sweep ptxas=3 --dry-run"
expect 0 tune attention $long
out_has " 153232 "
expect 0 tune attention $long --score relative_bias
out_has " 194224 "
expect 2 tune attention $shape
err_has "unknown option --runs"
expect 2 tune softmax x=random:9x9xf32 y=like:x --target cpu
err_has "@softmax needs a --sweep, or a tune("
# Without --sweep the kernel's own tune(..) is tried, of what is left open.
cat >space.tile <<'END2'
kernel @twice[BM: int, BN: block = 8](%x: tensor<[?] x f32>)
    tune(BM=16, 8 * 4; BN=8, 16; warps=2, 4; stages=2) grid(cdiv(size(%x, 0), BM)) {
  %v = load %x[program_id(0) * BM +: BM] boundary(0)
  store %x[program_id(0) * BM +: BM], %v + %v boundary(0)
}
END2
expect 0 tune space.tile x=random:40xf32 --target cpu --dry-run
out_has "4 of 4 variants would be timed"
out_has '"use": {"BM": 16, "BN": 8}'
expect 0 tune space.tile x=random:40xf32 --target sm_80 --dry-run -D BN=8
out_has "4 of 4 variants would be timed"
out_has '"use": {"BM": 16, "warps": 2, "stages": 2}'
expect 0 tune space.tile x=random:40xf32 --target sm_80 --dry-run --sweep BM=8
out_has "1 of 1 variants would be timed"
expect 0 tune space.tile x=random:40xf32 --target cpu --config space.json
out_has 'space.json: {"target": "cpu", "use": {"BM": '
expect 0 tune matmul $ab --target cpu --dry-run
out_has "18 of 18 variants would be timed"
sed 's/warps=2/warps=0/' space.tile >wrong.tile
expect 1 tune wrong.tile x=random:40xf32 --target cpu --dry-run
err_has "wrong.tile:2:40: error: tune: warps=0, expected 1 to 32"
expect 2 tune matmul $ab --target cpu --sweep T=f32
err_has "is no whole number"
expect 2 tune matmul $ab --target cpu --sweep BM=8 --warps 4
err_has "say --sweep warps=8"
expect 2 tune matmul $ab --target cpu --sweep BM=8 --check-seconds 0
err_has "what is not checked is not written"
expect 1 tune $late --sweep N=1 --config nowhere/t.json --timeout 600
err_has "the folder nowhere/ has to be there, and writable"
out_is_empty
expect 2 tune $late --sweep N=1 --config "$(printf '%0300d' 0)"
err_has "--config is longer than 255 bytes"
# Exit codes are those of the other commands.
expect 2 bench matmul $ab --target vax
err_has 'there is no target `vax`'
finish
