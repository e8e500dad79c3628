# SPDX-License-Identifier: Apache-2.0
"""What flex_attention must give: whole matrices in float64, by torch's vmap and
autograd."""
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] /
                       "lib" / "python"))
try:
    import torch
except ImportError:
    print("no torch here")
    sys.exit(77)
from torch.nn.attention import flex_attention as torchs

import tilec

# A matrix of scores through a score function, or of 0 and 1 through a mask.
APPLY = """
func @none(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32) -> f32 {
  return %s
}
func @all(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {
  return true
}
kernel @apply[score_mod: func(f32, i32, i32, i32, i32) -> f32 = @none,
              mask_mod: func(i32, i32, i32, i32) -> i1 = @all](
    %s: tensor<[?, ?, ?, ?] x f32>, %to: tensor<[?, ?, ?, ?] x f32>)
    grid(cdiv(size(%s, 3), 32), cdiv(size(%s, 2), 8), size(%s, 0) * size(%s, 1))
{
  %z = program_id(2) / size(%s, 1)
  %h = rem(program_id(2), size(%s, 1))
  %m = program_id(1) * 8
  %n = program_id(0) * 32
  %v = load %s[%z, %h, %m +: 8, %n +: 32] boundary(0, 1)
  %q = min(%m + range(8), size(%s, 2) - 1)[:, none]
  %k = min(%n + range(32), size(%s, 3) - 1)[none, :]
  %see = mask_mod(%z, %h, %q, %k)
  %r = select(%see, score_mod(%v, %z, %h, %q, %k), -inf)
  store %to[%z, %h, %m +: 8, %n +: 32], %r boundary(0, 1)
}
"""


def applied(mod, scores, scored):
    """The traced mod's own results, without attention around it."""
    from tilec.flex_attention import _mods
    m = _mods.of(mod, scored, scores.device)
    captured = {n: x.detach().reshape(x.shape or (1,)) if torch.is_tensor(x)
                else x for n, x in m.captured.items()}
    to = torch.empty_like(scores)
    tilec.kernel(m.text + APPLY, name="apply", bindings={
        "score_mod" if scored else "mask_mod": m.name})(
            scores, to, **captured)
    return to


class _Indexing(torch.overrides.TorchFunctionMode):
    """t[i] of a tensor i as a gather: to torch it is a number otherwise."""

    def __torch_function__(self, f, types, args=(), kwargs=None):
        if f is torch.Tensor.__getitem__:
            index = args[1] if isinstance(args[1], tuple) else args[1:]
            if all(torch.is_tensor(i) or isinstance(i, int) for i in index):
                return torch.ops.aten.index(args[0], [
                    torch.tensor(i, device=args[0].device)
                    if isinstance(i, int) else i for i in index])
        return f(*args, **(kwargs or {}))


def by_vmap(mod, scores, scored):
    """The same by torch: float64 stays float64."""
    b, h, m, n = [torch.arange(x, device=scores.device, dtype=torch.int32)
                  for x in scores.shape]
    with _Indexing():
        if scored:
            return torchs._vmap_for_bhqkv(mod, prefix=(0,))(scores, b, h, m, n)
        see = torchs._vmap_for_bhqkv(mod, prefix=())(b, h, m, n)
    return see.expand(scores.shape)


def block_kinds(mask):
    """[B, H, rows, columns] of a BlockMask, from its lists in a loop."""
    kinds = torch.zeros(mask.kv_indices.shape, dtype=torch.int8)
    for counts, indices, kind in (
            (mask.kv_num_blocks, mask.kv_indices, 1),
            (mask.full_kv_num_blocks, mask.full_kv_indices, 2)):
        if counts is None:
            continue
        for z in range(kinds.shape[0]):
            for h in range(kinds.shape[1]):
                for r in range(kinds.shape[2]):
                    for j in indices[z, h, r, :counts[z, h, r]].tolist():
                        kinds[z, h, r, j] = kind
    return kinds


def seen(mask, scores):
    """Which pairs a BlockMask leaves, as compiled FlexAttention does."""
    kinds = block_kinds(mask)
    for dim, side in zip((2, 3), mask.BLOCK_SIZE):
        kinds = kinds.repeat_interleave(side, dim)
    kinds = kinds[:, :, :scores.shape[2], :scores.shape[3]]
    kinds = kinds.to(scores.device)
    return (kinds == 2) | ((kinds == 1) & by_vmap(mask.mask_mod, scores, False))


def attention(q, k, v, score_mod=None, block_mask=None, scale=None):
    """o, lse, row maxima in float64."""
    q, k, v = q.double(), k.double(), v.double()
    group = q.shape[1] // k.shape[1]
    k, v = [x.repeat_interleave(group, 1).expand(q.shape[0], -1, -1, -1)
            for x in (k, v)]
    s = q @ k.mT * (1 / math.sqrt(q.shape[3]) if scale is None else scale)
    if score_mod is not None:
        s = by_vmap(score_mod, s, True)
    if block_mask is not None:
        s = s.masked_fill(~seen(block_mask, s), -math.inf)
    largest = s.amax(-1)
    p = torch.where(largest[..., None] == -math.inf, 0,
                    torch.exp(s - largest.clamp(min=-1e30)[..., None]))
    total = p.sum(-1)
    o = p @ v / torch.where(total == 0, 1, total)[..., None]
    return o, largest.clamp(min=-1e30) + total.log(), largest


def error(x, y):
    """The relative error of x."""
    x, y = x.detach().double(), y.detach().double()
    norm = y.norm().item()
    return (x - y).norm().item() / (norm or 1)
