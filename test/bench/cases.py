# SPDX-License-Identifier: Apache-2.0
"""What peers.py times: shapes, mods, and their names. Needs no torch."""
import collections

WINDOW, CAP = 1024, 20.0
# Masks and scores that no configuration was tuned for, as a user may write them:
# (mask, score) in tile text.
OWN = {
    "document_causal": ("document_causal", None),
    "document": ("document", None),
    "document_ids": ("document_ids", None),
    "prefix_lm": ("prefix_lm", None),
    "sink_window": ("sink_window", None),
    "every_third": ("""
func @every_third(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {
  return %k <= %q and rem(%q + %k, 3) != 1
}
""", None),
    "distance_score": ("causal", """
func @distance_score(%score: f32, %b: i32, %h: i32, %q: i32, %k: i32) -> f32 {
  return %score - 0.25 * sqrt(cast(abs(%q - %k), f32))
}
"""),
}
PREFIX, SINK, RECENT = 1500, 4, 700
# Where the documents of 8192 packed tokens begin.
DOCUMENTS = (0, 1000, 1900, 2100, 4000, 4700, 6300, 7900)
# FlexAttention's own benchmark adds 2 h to each score of head h.
PER_HEAD = """
func @per_head(%score: f32, %b: i32, %h: i32, %q: i32, %k: i32) -> f32 {
  return %score + 2.0 * cast(%h, f32)
}
"""


def heads(b, h, s, d, hk=None, causal=False, dv=None, mod=None):
    return dict(kind="attention", B=b, H=h, S=s, D=d, DV=dv or d, HK=hk or h,
                causal=causal, mod=mod)


def tokens(s, d, causal=False, mod=None):
    """16384 tokens in all, 2048 wide."""
    return heads(16384 // s, 2048 // d, s, d, causal=causal, mod=mod)


def narrow(s, d, causal=False):
    return dict(tokens(s, d, causal), kind="fp8")


def layer(s, d, kind):
    """A linear layer that makes v, and attention after it."""
    return dict(tokens(s, d), kind=kind, E=2048)


def matmul(n):
    return dict(kind="matmul", M=n, N=n, K=n)


BOTH = (False, True)  # full, causal
TOKENS = [tokens(s, d, c) for d in (64, 128, 256) for c in BOTH
          for s in (1024, 4096, 16384)]
FORWARD = [heads(*shape, causal=c) for shape in
           ((4, 32, 4096, 64), (4, 16, 4096, 128), (4, 8, 4096, 256),
            (4, 32, 4096, 128, 8)) for c in BOTH]
SETS = {
    "forward": FORWARD,
    "small": [heads(2, 16, 512, 64)],
    # Few tiles: launch, prologue and the last wave count.
    "short": [heads(b, h, s, d, causal=c) for b, h, s in
              ((1, 8, 512), (1, 16, 1024), (2, 16, 512), (4, 16, 1024))
              for d in (64, 128) for c in BOTH],
    # Groups of heads, and rows that no tile divides.
    "gqa": [heads(*shape, causal=c) for shape in
            ((4, 32, 4096, 128, 8), (1, 64, 8192, 128, 8),
             (4, 16, 3333, 128, 4)) for c in BOTH],
    "dims": [heads(4, 16, 4096, d, causal=c) for d in (80, 96, 160, 192, 512)
             for c in BOTH],
    "matmul": [matmul(4096)],
    "matmul8k": [matmul(8192)],
    "all": FORWARD + [heads(2, 16, 512, 64), matmul(4096)],
    "textbook": TOKENS,
    "hopper": TOKENS + [heads(4, 16, 4096, 192, 4, c, dv=128) for c in BOTH],
    "mods": [tokens(s, d, mod=m) for d in (64, 128) for s, m in (
        (4096, None), (4096, "alibi"), (4096, "relative_bias"),
        (4096, "soft_cap"), (16384, "sliding_window"), (16384, None))],
    "fp8": [narrow(s, d, c) for d in (128, 64, 256) for c in BOTH
            for s in (1024, 4096, 16384)],
    "projected": [layer(4096, 128, kind) for kind in ("projection",
                                                      "projected")],
    "backward": TOKENS + [heads(8, 32, 1024, d, 2, c, dv=128)
                          for d in (128, 192) for c in BOTH],
    # The matrix of FlexAttention's own benchmark.
    "flex": [heads(b, 16, s, d, causal=m == "causal",
                   mod=None if m == "causal" else m)
             for s in (512, 1024, 4096) for d in (64, 128, 256)
             for b in (2, 8, 16)
             for m in (None, "causal", "relative_bias", "head_bias")],
    "own": [heads(2, 16, 8192, d, mod=m) for d in (128, 64) for m in OWN],
    "quick": [heads(1, 8, 1024, 64), heads(1, 8, 1000, 128, causal=True)],
}
# Of sets that are not for forward alone.
DIRECTIONS = {"backward": ("backward",), "flex": ("forward", "backward"),
              "own": ("forward", "backward")}


def directed(name, direction=None):
    """The cases of a set, each with its direction."""
    wanted = ((direction,) if direction else
              DIRECTIONS.get(name, ("forward",)))
    return [dict(case, direction=d) for case in SETS[name] for d in wanted]


def flops(case):
    """Two products forward, five backward; causal is half."""
    if case["kind"] == "matmul":
        return 2 * case["M"] * case["N"] * case["K"]
    made = (2 * case["B"] * case["S"] * case["H"] * case["DV"] * case["E"]
            if "E" in case else 0)
    if case["kind"] == "projection":
        return made
    d, dv = case["D"], case["DV"]
    wide = 3 * d + 2 * dv if case["direction"] == "backward" else d + dv
    f = 2 * case["B"] * case["H"] * case["S"] ** 2 * wide
    return made + (f / 2 if case["causal"] else f)


def label(case):
    if case["kind"] == "matmul":
        return "matmul %dx%dx%d" % (case["M"], case["N"], case["K"])
    h = "%d" % case["H"]
    if case["HK"] != case["H"]:
        h += "/%d" % case["HK"]
    d = "%d" % case["D"]
    if case["DV"] != case["D"]:
        d += "/%d" % case["DV"]
    what = case["mod"] or ("causal" if case["causal"] else "full")
    if "E" in case:
        what = case["kind"]
    return "%dx%sx%dx%s %s" % (case["B"], h, case["S"], d, what)


Mods = collections.namedtuple("Mods", "mask score captured mask_fn score_fn")


def mods_of(case):
    """tilec's mask, its score and what they capture; and torch's functions."""
    import torch
    mod = case["mod"]
    if mod == "alibi":
        slopes = 2.0 ** (-8.0 * torch.arange(
            1, case["H"] + 1, device="cuda", dtype=torch.float32) / case["H"])
        return Mods(None, mod, {"slopes": slopes}, None,
                    lambda s, b, h, i, j: s + slopes[h] * (j - i))
    if mod == "relative_bias":
        return Mods(None, mod, {}, None, lambda s, b, h, i, j: s + (i - j))
    if mod == "head_bias":
        return Mods(None, PER_HEAD, {}, None, lambda s, b, h, i, j: s + 2 * h)
    if mod == "soft_cap":
        return Mods(None, mod, {"cap": CAP}, None,
                    lambda s, b, h, i, j: CAP * torch.tanh(s / CAP))
    if mod == "sliding_window":
        return Mods(mod, None, {"w": WINDOW}, lambda b, h, i, j:
                    (i >= j) & (i - j < WINDOW), None)
    if mod in OWN:
        return own_mods(mod, case["S"])
    if case["causal"]:
        return Mods("causal", None, {}, lambda b, h, i, j: i >= j, None)
    return Mods(None, None, {}, None, None)


def own_mods(mod, s):
    import torch
    starts = torch.tensor(DOCUMENTS, device="cuda", dtype=torch.int32)
    at = torch.arange(s, device="cuda", dtype=torch.int32)
    ids = torch.bucketize(at, starts, right=True).to(torch.int32)
    captured = {"document_causal": {"offsets": starts},
                "document": {"offsets": starts},
                "document_ids": {"ids": ids},
                "prefix_lm": {"prefix": PREFIX},
                "sink_window": {"sink": SINK, "w": RECENT}}
    masks = {
        "document_causal": lambda b, h, i, j: (i >= j) & (ids[i] == ids[j]),
        "document": lambda b, h, i, j: ids[i] == ids[j],
        "document_ids": lambda b, h, i, j: ids[i] == ids[j],
        "prefix_lm": lambda b, h, i, j: (j < PREFIX) | (i >= j),
        "sink_window": lambda b, h, i, j:
            (i >= j) & ((j < SINK) | (i - j < RECENT)),
        "every_third": lambda b, h, i, j: (i >= j) & ((i + j) % 3 != 1),
        "distance_score": lambda b, h, i, j: i >= j}
    score = None
    if mod == "distance_score":
        def score(x, b, h, i, j):
            return x - 0.25 * ((i - j).abs().float()).sqrt()
    return Mods(*OWN[mod], captured.get(mod, {}), masks[mod], score)
