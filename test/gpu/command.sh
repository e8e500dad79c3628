#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The command on a GPU; skipped where there is none.
. "$2/test/cli/expect.inc"

cat >fill.tile <<'END'
kernel @fill(%x: tensor<[?] x f32>, %value: f32) grid(cdiv(size(%x, 0), 128)) {
  %i = program_id(0) * 128
  assert %i < 1000, "too far"
  store %x[%i +: 128], splat(%value, tile<128 x f32>) boundary(0)
}
END
"$tilec" run fill.tile x=zeros:8xf32 value=1 --target sm_80 >out 2>err
if [ $? != 0 ]; then
    cat err
    rm -rf "$folder"
    [ "${TILEC_REQUIRE_GPU:-}" = 1 ] && exit 1
    exit 77
fi

expect 0 run fill.tile x=zeros:1000xf32 value=2.5 -o x=x.st
err_has " on sm_"
cat >is.tile <<'END'
kernel @is(%x: tensor<[?] x f32>) grid(1) {
  %v = load %x[0 +: 1024] boundary(0) pad(2.5)
  assert sum(%v, axis=0) == 2560.0, "another sum"
}
END
expect 0 run is.tile x=x.st:x
expect 0 run is.tile x=x.st:x --target cpu
expect 1 run fill.tile x=zeros:2000xf32 value=1
err_has "too far"
err_has "fill.tile:3"

for data in encoder_l0_s128_d64_f32 encoder_l1_s1000_d128_bf16; do
    expect 0 attention "$source/test/data/$data.safetensors" --check o_full
    expect 0 attention "$source/test/data/$data.safetensors" --mask causal \
        --check o_causal --target sm_80
done
# The second process neither compiles nor assembles.
expect 0 cache why attention_fwd -D D=64 -D T=bf16 --target sm_80
for what in cubin json; do
    expect 0 compile attention_fwd -D D=64 -D T=bf16 --emit $what -o it.$what
done
grep -q '"spilled_bytes":.*0' it.json || failed "attention_fwd spills"
finish
