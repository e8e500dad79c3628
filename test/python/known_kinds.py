# SPDX-License-Identifier: Apache-2.0
"""@known_kinds: kinds of blocks from a table for blocks of other sides."""
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] /
                       "lib" / "python"))
import tilec


def expected(table, sides, known, lengths):
    """By each pair: 0 none is seen, 2 all are seen, else 1."""
    pairs = table.repeat(known[0], 2).repeat(known[1], 3)
    pairs = pairs[:, :, :lengths[0], :lengths[1]]
    rows, columns = [-(-n // s) for n, s in zip(lengths, sides)]
    kinds = numpy.zeros((*table.shape[:2], rows, columns), numpy.int32)
    for r in range(rows):
        for c in range(columns):
            part = pairs[:, :, r * sides[0]:(r + 1) * sides[0],
                         c * sides[1]:(c + 1) * sides[1]]
            whole = (c + 1) * sides[1] <= lengths[1]
            least, most = part.min((2, 3)), part.max((2, 3))
            kinds[:, :, r, c] = numpy.where(
                most == 0, 0, numpy.where((least == 2) & whole, 2, 1))
    return kinds


TEXT = "".join(tilec._abi.lib.tilec_embedded_text(name).decode()
               for name in (b"block_mask", b"mods/blocks"))
random = numpy.random.default_rng(0)
for sides in ((128, 128), (64, 192), (160, 176)):
    for known in ((128, 128), (64, 64), (256, 512), (100, 36)):
        for lengths in ((1024, 1024), (1000, 700), (130, 2500)):
            shape = (2, 1, *[-(-n // s) for n, s in zip(lengths, known)])
            # In stripes, or hardly a larger block were empty or full.
            table = random.choice([0, 1, 2], shape).astype(numpy.int8)
            table[:, :, ::2, shape[3] // 2:] = 2
            table[:, :, :, :shape[3] // 3] = 0
            want = expected(table, sides, known, lengths)
            kinds = numpy.full(want.shape, 7, numpy.int32)
            tilec.compile(TEXT, name="known_kinds", bindings=dict(
                BQ=sides[0], BK=sides[1], KQ=known[0], KK=known[1],
                known="@table_kinds"))(kinds, *lengths, **{
                    "known.table": table})
            assert (kinds == want).all(), (sides, known, lengths)
print("passed")
