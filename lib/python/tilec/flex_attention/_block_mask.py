# SPDX-License-Identifier: Apache-2.0
"""torch's BlockMask: made by a kernel, and obeyed.

A BlockMask holds lists of blocks and a mask_mod. If create_block_mask made it
and nobody has changed it since, both say the same: flex_attention takes the
mask_mod, whose comparisons the compiler reads. Any other one (from_kv_blocks,
slices, another mask_mod, torch's own) may differ from its mask_mod: a kernel
finds out, once. If it does, a pair is seen if its block is listed as full, or
is listed and the mask_mod says so.
"""
import collections
import re
import threading
import typing

import torch
from torch.nn.attention import flex_attention as torchs

from .. import _abi, _context, _kernel, _tensors
from . import _foreign, _mods

BlockMask = torchs.BlockMask
LARGE = 1 << 30  # the side of the block of a BlockMask that stands for none

_LISTS = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks",
          "full_kv_indices")
# Attributes of a BlockMask: what create_block_mask has made of what.
MARK, _CAPTURED = "_tilec", "_tilec_captured"
_KINDS, _ASKED = "_tilec_kinds", "_tilec_asked"


def _state(mask):
    """What tells whether a BlockMask has changed."""
    found = [mask.mask_mod, mask.BLOCK_SIZE, mask.shape[-2:]]
    for name in _LISTS:
        x = getattr(mask, name)
        found += [x, x is not None and _tensors.version(x)]
    return found


def _versions(captured):
    """What tells whether captured values have changed."""
    return [y for x in captured.values()
            for y in (x, _tensors.version(x) if torch.is_tensor(x) else None)]


def _is_same(a, b):
    return a is not None and len(a) == len(b) and all(
        x is y or not torch.is_tensor(x) and not torch.is_tensor(y) and x == y
        for x, y in zip(a, b))


def is_its_mod(mask):
    """Whether the blocks of a BlockMask are surely those of its mask_mod."""
    return _is_same(getattr(mask, MARK, None), _state(mask))


def is_none(mask):
    """Whether it hides nothing: flex_attention's stand-in for no mask."""
    return (tuple(mask.BLOCK_SIZE) == (LARGE, LARGE) and
            mask.mask_mod is torchs.noop_mask)


# ---- Making one ----

_kernels = collections.OrderedDict()
_lock = threading.Lock()


def _fits(side):
    """Whether block_kinds takes such blocks."""
    tile = side // -(-side // 128)
    return side > 0 and side % tile == 0 and (tile in (1, 2, 4) or
                                              tile % 8 == 0)


def _kernel_of(mod, sides, device):
    key = mod.text, sides, device.type, device.index
    with _lock:
        found = _kernels.get(key)
    if found is None:
        text = _abi.lib.tilec_embedded_text(b"block_mask").decode()
        found = _kernel.kernel(
            text + mod.text, name="block_kinds", bindings={
                "mask_mod": mod.name, "BQ": str(sides[0]), "BK": str(sides[1])})
        with _lock:
            _kernels[key] = found
            if len(_kernels) > 256:
                _kernels.popitem(last=False)
    return found


def _kinds_by_mod(mod, batch, heads, lengths, sides, device):
    """[B, H, rows, columns]: 0 empty, 1 partial, 2 full; as torch counts."""
    rows, columns = [-(-n // side) for n, side in zip(lengths, sides)]
    kinds = torch.zeros((batch, heads, rows, columns), dtype=torch.int32,
                        device=device)
    if kinds.numel():
        captured = {n: x.detach().reshape(1) if torch.is_tensor(x) and
                    x.ndim == 0 else x.detach() if torch.is_tensor(x) else x
                    for n, x in mod.captured.items()}
        _kernel_of(mod, sides, device)(kinds=kinds, q_len=lengths[0],
                                       kv_len=lengths[1], **captured)
    if lengths[0] % sides[0]:
        kinds[:, :, -1].clamp_(max=1)  # queries that are none see nothing
    return kinds


def _default_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def create_block_mask(mask_mod: typing.Callable, B: typing.Optional[int],
                      H: typing.Optional[int], Q_LEN: int, KV_LEN: int,
                      device: typing.Union[torch.device, str, None] = None,
                      BLOCK_SIZE: typing.Union[
                          int, typing.Tuple[int, int]] = 128,
                      _compile: bool = False,
                      separate_full_blocks: bool = True,
                      **others: typing.Any) -> BlockMask:
    """torch's create_block_mask; a kernel asks the mask for each block, so that
    no matrix of queries and keys is made. B and H None: for all."""
    if torch.compiler.is_dynamo_compiling() or _compile or others:
        if not separate_full_blocks:
            others["separate_full_blocks"] = False
        return torchs.create_block_mask(
            mask_mod, B, H, Q_LEN, KV_LEN, device or _default_device(),
            BLOCK_SIZE, **others)
    device = torch.device(device) if device is not None else _default_device()
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    given = (mask_mod, B, H, Q_LEN, KV_LEN, device, BLOCK_SIZE,
             separate_full_blocks)
    if not torch.is_inference_mode_enabled():
        return _created(*given)
    with torch.inference_mode(False), torch.no_grad():  # lists have versions
        return _created(*given)


def _created(mask_mod, B, H, Q_LEN, KV_LEN, device, BLOCK_SIZE,
             separate_full_blocks):
    sides = (BLOCK_SIZE,) * 2 if isinstance(BLOCK_SIZE, int) else \
        tuple(BLOCK_SIZE)
    B, H = B or 1, H or 1
    if _foreign.is_without_data(device):
        return _unlisted(mask_mod, (B, H), (Q_LEN, KV_LEN))
    if not all(_fits(side) for side in sides):
        return _marked(torchs.create_block_mask(
            mask_mod, B, H, Q_LEN, KV_LEN, device, sides,
            **({} if separate_full_blocks else
               {"separate_full_blocks": False})), device)
    mod = _mods.of(mask_mod, False, device)
    kinds = _kinds_by_mod(mod, B, H, (Q_LEN, KV_LEN), sides, device)
    partial = torchs._dense_to_ordered(
        kinds == 1 if separate_full_blocks else kinds > 0)
    full = torchs._dense_to_ordered(kinds == 2) if separate_full_blocks \
        else (None, None)
    return _marked(_from_kv_blocks(partial, full, sides, mask_mod,
                                   (Q_LEN, KV_LEN)), device)


def _from_kv_blocks(partial, full, sides, mask_mod, lengths):
    try:
        return BlockMask.from_kv_blocks(*partial, *full, BLOCK_SIZE=sides,
                                        mask_mod=mask_mod, seq_lengths=lengths)
    except TypeError:  # torch 2.5 takes no seq_lengths
        return BlockMask.from_kv_blocks(*partial, *full, BLOCK_SIZE=sides,
                                        mask_mod=mask_mod)


def _unlisted(mask_mod, batch_and_heads, lengths):
    """One that is its mask_mod and lists no blocks: nothing can be computed
    (torch.export, FakeTensor modes, torch.func)."""
    with _foreign.outside():
        one = torch.ones(*batch_and_heads, 1, dtype=torch.int32)
        mask = _from_kv_blocks((one, torch.zeros_like(one)[..., None]),
                               (None, None), (LARGE, LARGE), mask_mod,
                               tuple(map(_foreign.size, lengths)))
        setattr(mask, MARK, _state(mask))
    return mask


def _marked(mask, device):
    """As one whose blocks are those of its mask_mod."""
    setattr(mask, MARK, _state(mask))
    setattr(mask, _CAPTURED, _versions(_mods.of(
        mask.mask_mod, False, device).captured))
    return mask


# ---- Obeying one ----


def _listed(counts, indices):
    """Lists of blocks as 0 or 1 for each block."""
    columns = indices.shape[-1]
    at = torch.arange(columns, device=indices.device) < counts[..., None]
    found = torch.zeros((*indices.shape[:-1], columns + 1), dtype=torch.int8,
                        device=indices.device)
    places = torch.where(at, indices, columns).long()
    return found.scatter(-1, places, 1)[..., :columns]


def kinds_of_lists(counts, indices, full_counts=None, full_indices=None):
    """[B, H, rows, columns]: 0 empty, 1 asks the mask_mod, 2 full."""
    kinds = _listed(counts, indices)
    if full_counts is not None:
        full = _listed(full_counts, full_indices)
        kinds = torch.where(full != 0, 2, kinds).to(torch.int8)
    return kinds.contiguous()


def kinds_of(mask):
    """The table of kinds of a BlockMask's blocks, kept with it."""
    kept = getattr(mask, _KINDS, None)
    if kept is not None and _is_same(kept[0], _state(mask)):
        return kept[1]
    kinds = kinds_of_lists(*[getattr(mask, name) for name in _LISTS])
    setattr(mask, _KINDS, (_state(mask), kinds))
    return kinds


def _data_of(captured):
    """What tells whether captured values are others, views of the same aside.
    """
    return [y for name, x in captured.items() for y in (
        (name, x.data_ptr(), _tensors.version(x), x.dtype, x.shape,
         x.stride())
        if torch.is_tensor(x) else (name, type(x), x))]


def _may_ask(mask, mod, device):
    """Whether a kernel can say what the mask_mod leaves of each block, for all
    batches and heads."""
    body = mod.text.partition("\n")[2]
    return (all(map(_fits, mask.BLOCK_SIZE)) and
            not _foreign.is_without_data(device) and
            not _context.is_capturing((
                _tensors.CUDA if device.type == "cuda" else _tensors.CPU, 0)) and
            all(size > 1 or not re.search(r"%%%s\b" % name, body)
                for name, size in zip("bh", mask.shape)))


def _says_its_mod(mask, mod, device):
    """Whether the blocks hide nothing that the mask_mod sees, and show nothing
    that it hides. Asked once for each state of both."""
    now = _state(mask), _data_of(mod.captured)
    kept = getattr(mask, _ASKED, None)
    if kept is not None and _is_same(kept[0], now[0]) and kept[1] == now[1]:
        return kept[2]
    if not _may_ask(mask, mod, device):
        return False
    table = kinds_of(mask)
    kinds = _kinds_by_mod(mod, *table.shape[:2], mask.shape[-2:],
                          tuple(mask.BLOCK_SIZE), table.device)
    same = kinds.shape == table.shape and bool(
        ((table == kinds) | (table == 1)).all())
    # With the captured values: their memory is not given to others.
    setattr(mask, _ASKED, (*now, same, mod.captured))
    return same


def text_of_blocks(mod, kinds_shape, sides):
    """The function that asks the table, then the mod: its name and text."""
    batch, heads = ["%" + n if size > 1 else "0"
                    for n, size in zip("bh", kinds_shape)]
    own = "".join(", " + p for p in mod.parameters)
    given = "".join(", " + p.partition(":")[0] for p in mod.parameters)
    return "@blocks_mod", mod.text + """
func @blocks_mod(%%b: i32, %%h: i32, %%q: i32, %%k: i32, \
%%blocks.kinds: tensor<[?, ?, ?, ?] x i8>%s) -> i1 {
  %%kind = %%blocks.kinds[%s, %s, %%q / %d, %%k / %d]
  return %%kind == 2 or (%%kind == 1 and %s(%%b, %%h, %%q, %%k%s))
}
""" % (own, batch, heads, sides[0], sides[1], mod.name, given)


def mask_of(mask, device):
    """A BlockMask for tilec.attention: text, captured values, and whether its
    blocks are right for them."""
    if is_none(mask):
        return None, {}, False
    mod = _mods.of(mask.mask_mod, False, device)
    if is_its_mod(mask):
        if mod.is_none:
            return None, {}, False
        return mod.text, mod.captured, _is_same(
            getattr(mask, _CAPTURED, None), _versions(mod.captured))
    if _says_its_mod(mask, mod, device):
        return mod.text, mod.captured, True
    kinds = kinds_of(mask)
    _, text = text_of_blocks(mod, kinds.shape, mask.BLOCK_SIZE)
    return text, {**mod.captured, "mask.blocks.kinds": kinds}, True
