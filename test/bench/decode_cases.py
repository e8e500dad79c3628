# SPDX-License-Identifier: Apache-2.0
"""The cases of decode.py: sequences, heads, and what is computed over them."""

ALL_PAGES = (1, 8, 16, 64, 256)
SOME_PAGES = (16, 64)
WINDOW = 1024
CAP = 30.0
PIECE = 2048
OWN_MASK = """func @own(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {
  return rem(%k + %h, 7) != 3
}"""

# What a case computes in more ways than one, each a contender of that name.
VARIANTS = {
    "soft cap": dict(score_mod="soft_cap(cap=%g)" % CAP),
    "alibi": dict(score_mod="alibi"),
    "own mask": dict(mask_mod=OWN_MASK),
    "window of 1024": dict(w=WINDOW),
    "window of 1024, dealt": dict(w=WINDOW, dealt=True),
    "window of 8192": dict(w=8192),
    "window of 8192, dealt": dict(w=8192, dealt=True),
    "constant pieces": dict(piece=PIECE),
    "a factor": dict(factors="one"),
    "a factor a row": dict(factors="row"),
    "bf16": dict(type="bf16"),
    "v apart": dict(apart=True),
}


def case(batch, heads, key_heads, queries, keys, dim, pages=(), variants=(),
         peers=True, **more):
    return dict(dict(lens=[keys] * batch if isinstance(keys, int) else keys,
                     heads=heads, key_heads=key_heads, queries=queries,
                     dim=dim, dv=dim, type="bf16", pages=pages,
                     variants=variants, peers=peers), **more)


def latent(batch, heads, keys, pages):
    """MLA: values are the first 512 columns of keys."""
    return case(batch, heads, 1, 1, keys, 576, pages, ["v apart"], dv=512)


def narrow(*args, variants=(), **more):
    """A cache of 8 bits."""
    return case(*args, variants=[*variants, "bf16"], peers=False,
                type="f8e4m3", **more)


SETS = {
    "decode": [
        case(16, 32, 8, 1, 8192, 128, ALL_PAGES,
             ["soft cap", "alibi", "own mask", "window of 1024",
              "window of 1024, dealt", "constant pieces"]),
        case(16, 32, 8, 1, WINDOW, 128, peers=False),
        case(64, 32, 8, 1, 2048, 128, SOME_PAGES),
        case(128, 32, 8, 1, 1024, 128, SOME_PAGES),
        case(128, 64, 8, 1, 1024, 128, SOME_PAGES),
        case(32, 32, 32, 1, 4096, 128),
        case(1, 32, 8, 1, 32768, 128, SOME_PAGES),
        case(1, 32, 8, 1, 65536, 128, SOME_PAGES),
        case(1, 32, 8, 1, 131072, 128, SOME_PAGES,
             ["window of 8192", "window of 8192, dealt"]),
        case(1, 32, 8, 1, 8192, 128, peers=False),
        case(1, 32, 4, 1, 1024, 128, SOME_PAGES),
        case(16, 32, 8, 4, 8192, 128, SOME_PAGES),
        case(16, 64, 8, 1, 8192, 64, SOME_PAGES),
        case(8, 16, 8, 1, 8192, 256, SOME_PAGES),
        case(32, 32, 8, 1, [131072] + [1024] * 31, 128, peers=False),
    ],
    "groups": [
        case(32, 32, 8, 1, 4096, 128),
        case(32, 40, 8, 1, 4096, 128),
        case(32, 16, 4, 1, 4096, 128),
        case(32, 28, 4, 1, 4096, 128),
        case(8, 16, 4, 1, 8192, 512),
    ],
    "bytes": [
        narrow(32, 32, 8, 1, 4096, 128, SOME_PAGES,
               variants=["a factor", "a factor a row"]),
        narrow(1, 32, 4, 1, 65536, 128, SOME_PAGES,
               variants=["a factor", "a factor a row"]),
        narrow(16, 32, 8, 1, 8192, 128),
        narrow(16, 32, 8, 4, 8192, 128),
        narrow(8, 16, 8, 1, 8192, 256),
    ],
    "latent": [
        latent(16, 128, 8192, SOME_PAGES),
        latent(64, 128, 4096, (64,)),
        latent(32, 16, 8192, SOME_PAGES),
        latent(1, 128, 32768, (64,)),
    ],
    # Whole and in chunks.
    "prefill": [
        case(8, 32, 8, 512, 8192, 128, SOME_PAGES, peers=False),
        case(4, 32, 8, 4096, 4096, 128, SOME_PAGES, peers=False),
    ],
}

BYTES = {"bf16": 2, "f8e4m3": 1}


def is_latent(c):
    return c["dv"] != c["dim"]


def label(c):
    """16x32/8x1 on 8192, D=128: batch, heads, heads of keys, queries."""
    lens = c["lens"]
    keys = str(lens[0]) if len(set(lens)) == 1 else "%d and %d of %d" % (
        lens[0], len(lens) - 1, lens[1])
    dim = "%d" % c["dim"] + ("/%d" % c["dv"] if is_latent(c) else "")
    return "%dx%d/%dx%d on %s, D=%s%s" % (
        len(lens), c["heads"], c["key_heads"], c["queries"], keys, dim,
        "" if c["type"] == "bf16" else ", " + c["type"])


def bytes_of(c):
    """Of keys and values, each read once."""
    columns = c["dim"] if is_latent(c) else c["dim"] + c["dv"]
    return BYTES[c["type"]] * sum(c["lens"]) * c["key_heads"] * columns
