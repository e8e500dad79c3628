#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tilec fmt: one form, the same program, errors that leave the file alone.
. "$2/test/cli/expect.inc"

# is FILE OTHER: they hold the same.
is() {
    cmp -s "$1" "$2" || {
        diff "$1" "$2" >differences
        mv differences out
        failed "$last: $1 is not $2"
    }
}

cat >ugly.tile <<'END'
// A  comment stays   


import "a.tile"
kernel @k [T:type=f32 ,BM : int=64](%x:tensor<[?,?] x T>,
   %y : tensor< [ ?, ?] x T>)  grid{

   yield cdiv( size(%x,0),BM )

      }
{
%m0=program_id(0)*BM   %n=size(%x, 1)
      %a=load %x[%m0+:BM,0 +: 64]boundary (0,1) // loads
      %sum=for %i=0 to %n step 64
      carry( %s=splat(0.0,tile<BM xf32>) ) {
    yield %s+sum(cast(%a,f32),axis = 1)
      // the last of the loop
        }
  %b = select(%sum[:,none] >-inf, -%a,
     %a )
  if %n>0{ barrier
    store %y[%m0 +: BM, 0 +: 64], %b
       boundary(0, 1)
  }else {
  }
}
END
cat >neat.tile <<'END'
// A  comment stays

import "a.tile"
kernel @k [T: type = f32, BM: int = 64](%x: tensor<[?, ?] x T>,
                                        %y: tensor<[?, ?] x T>) grid {
  yield cdiv(size(%x, 0), BM)
}
{
  %m0 = program_id(0) * BM   %n = size(%x, 1)
  %a = load %x[%m0 +: BM, 0 +: 64] boundary (0, 1) // loads
  %sum = for %i = 0 to %n step 64
      carry(%s = splat(0.0, tile<BM x f32>)) {
    yield %s + sum(cast(%a, f32), axis=1)
    // the last of the loop
  }
  %b = select(%sum[:, none] > -inf, -%a,
              %a)
  if %n > 0 { barrier
    store %y[%m0 +: BM, 0 +: 64], %b
        boundary(0, 1)
  } else {
  }
}
END
"$tilec" fmt <ugly.tile >out 2>err
last="tilec fmt <ugly.tile"
is out neat.tile
expect 0 fmt ugly.tile
is out neat.tile
expect 0 fmt neat.tile
is out neat.tile

# --check lists, -i writes.
expect 1 fmt --check neat.tile ugly.tile
echo ugly.tile >list
is out list
cp ugly.tile file.tile
chmod 640 file.tile
expect 0 fmt -i file.tile neat.tile
out_is_empty
is file.tile neat.tile
[ "$(stat -c %a file.tile)" = 640 ] || failed "$last: the mode is another"
expect 0 fmt --check file.tile
out_is_empty
expect 2 fmt -i
err_has "-i writes into files, and there is none"
expect 2 fmt -i --check file.tile
expect 1 fmt nowhere.tile
err_has "nowhere.tile: No such file"

# A slip that is no error of form and leaves no lines to tell: its error, and the
# file stays.
cat >slip.tile <<'EOF'
kernel @slip(%x: tensor<[?] x f32>)
{
  %a = load %x[0 +: 8]
      %b &= cast(%a, f16)
}
EOF
cp slip.tile slip.kept
expect 1 fmt -i slip.tile
cmp slip.tile slip.kept || exit 1

# An error of form is one, and the file stays; names and types do not matter.
# wrong LINE:COLUMN TEXT: what wrong.tile gives.
wrong() {
    cp wrong.tile before.tile
    expect 1 fmt -i wrong.tile
    err_has "wrong.tile:$1: error: $2"
    is wrong.tile before.tile
}
printf 'func @f(%%x: f32) -> f32 {\n  return %%x +\n}\n' >wrong.tile
wrong 3:1 "expected a value, found \`}\`"
printf 'func @f(%%x: f32) -> f32 {\n   return (%%x\n}\n' >wrong.tile
wrong 3:1 "expected \`)\`, found \`}\`"
printf 'func @f(%%x: f32) -> f32 {\n   return $x\n}\n' >wrong.tile
wrong 2:11 "unexpected character \`\$\`"
printf 'func @f() {\n   @g(%%x )\n  }}\n' >wrong.tile
wrong 3:4 "expected \`func\`"
printf 'func @f[*@none](%%x: Q) {\n   %%y = { \n  }\n' >wrong.tile
wrong 1:24 "\`{\` is never closed"
printf 'func @f() {\n    @g(%%x )\n    }\n' >names.tile
expect 0 fmt names.tile
printf 'func @f() {\n  @g(%%x)\n}\n' >names.neat
is out names.neat

# The kernels are as they are to be.
# shellcheck disable=SC2046
expect 0 fmt --check $(find "$source/kernels" -name '*.tile')
out_is_empty

# All programs of the tree: formatted once they stay as they are, and are the
# same programs.
mkdir tree
(cd "$source" && find kernels test/ir -name '*.tile' | tar cf - -T -) |
    tar xf - -C tree
find tree -name '*.tile' | xargs -n 300 "$tilec" fmt >/dev/null 2>err
sed -n 's/^\(tree[^:]*\):[0-9]*:[0-9]*: error: .*/\1/p' err | sort -u |
    xargs rm -f
files=$(find tree -name '*.tile' | wc -l)
[ "$files" -gt 600 ] || failed "only $files programs can be formatted"
# printed FOLDER: what `tilec opt` prints of its programs, beside them.
printed() {
    for file in $(cd "$1" && find kernels test/ir/roundtrip test/ir/nvptx \
        -name '*.tile'); do
        (cd "$1" && "$tilec" opt "$file" >"$file.printed" 2>/dev/null)
    done
}
cp -r tree formatted
last="tilec fmt -i of all"
find formatted -name '*.tile' | xargs -n 300 "$tilec" fmt -i ||
    failed "$last"
find formatted -name '*.tile' |
    xargs -n 300 "$tilec" fmt --check >out 2>err ||
    failed "$last: again they change"
printed tree
printed formatted
for file in $(cd tree && find . -name '*.printed'); do
    cmp -s "tree/$file" "formatted/$file" ||
        failed "$last: ${file%.printed} is another program"
done
[ "$(find tree -name '*.printed' -size +0 | wc -l)" -gt 80 ] ||
    failed "$last: hardly any of them is a program"
finish
