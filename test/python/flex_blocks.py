# SPDX-License-Identifier: Apache-2.0
"""BlockMasks: made as torch makes them, obeyed as compiled FlexAttention does.
"""
import sys
import warnings

import flex_reference as reference
import flex_zoo
import torch
from torch.nn.attention import flex_attention as torchs

from tilec.flex_attention import (AuxRequest, BlockMask, _block_mask, _lists,
                                  _mods, and_masks, create_block_mask,
                                  flex_attention, noop_mask)

LISTS = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks",
         "full_kv_indices", "q_num_blocks", "q_indices", "full_q_num_blocks",
         "full_q_indices")


def causal(b, h, q, k):
    return q >= k


def inputs(m, n, b=2, h=4):
    torch.manual_seed(0)
    return (torch.randn(b, h, m, 32), torch.randn(b, h, n, 32),
            torch.randn(b, h, n, 32))


def check(q, k, v, mask, score_mod=None):
    got = flex_attention(q, k, v, score_mod, mask)
    want = reference.attention(q, k, v, score_mod, mask)[0]
    assert reference.error(got, want) < 2e-6, reference.error(got, want)


def same_lists(a, b):
    for name in LISTS:
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None), name
        if x is not None:
            assert x.dtype == y.dtype and x.shape == y.shape, name
    # Indices after the counted ones are in any order.
    assert torch.equal(reference.block_kinds(a), reference.block_kinds(b))
    assert torch.equal(a.to_dense(), b.to_dense())
    assert a.shape == b.shape and a.BLOCK_SIZE == b.BLOCK_SIZE
    assert a.sparsity() == b.sparsity() and str(a) == str(b)


def test_made_as_torch_makes_them():
    for name in ("causal", "padding", "documents", "per_head",
                 "block_diffusion"):
        mod, _ = flex_zoo.MASKS[name]((2, 4, 300, 300), "cpu")
        for m, n in ((300, 300), (256, 256), (100, 300), (257, 130)):
            for sides in (128, 64, (32, 64), 100):
                same_lists(
                    create_block_mask(mod, 2, 4, m, n, "cpu", sides),
                    torchs.create_block_mask(mod, 2, 4, m, n, "cpu", sides))


def test_forms_of_arguments():
    one = create_block_mask(causal, None, None, 256, 256, device="cpu")
    assert one.shape == (1, 1, 256, 256)
    whole = create_block_mask(noop_mask, 1, 1, 256, 256, device="cpu")
    assert whole.sparsity() == 0
    no_full = create_block_mask(causal, 1, 1, 300, 300, device="cpu",
                                separate_full_blocks=False)
    assert no_full.full_kv_num_blocks is None
    for mask in (one, whole, no_full):
        n = mask.shape[2]
        check(*inputs(n, n), mask)


def test_its_mod_alone_is_used():
    """A BlockMask of ours that nobody changed needs no table of blocks."""
    mask = create_block_mask(causal, None, None, 300, 300, device="cpu")
    text, captured, _ = _block_mask.mask_of(mask, torch.device("cpu"))
    assert text == _mods.of(causal, False, torch.device("cpu")).text
    assert captured == {}


def test_torchs_own():
    mod, _ = flex_zoo.MASKS["padding"]((2, 4, 300, 300), "cpu")
    mask = torchs.create_block_mask(mod, 2, None, 300, 300, device="cpu")
    check(*inputs(300, 300), mask)


def is_alone(mask):
    """Whether the kernel takes the mask_mod without the table of blocks."""
    return "mask.blocks.kinds" not in _block_mask.mask_of(
        mask, torch.device("cpu"))[1]


def test_torchs_own_is_its_mod():
    """A kernel finds that the blocks are those of the mask_mod, until either
    changes."""
    ids = torch.arange(300) // 70

    def documents(b, h, q, k):
        return (ids[q] == ids[k]) & (q >= k)

    for mod in (causal, documents, noop_mask):
        mask = torchs.create_block_mask(mod, None, None, 300, 300,
                                        device="cpu")
        assert is_alone(mask), mod
        check(*inputs(300, 300), mask)
    mask = torchs.create_block_mask(documents, None, None, 300, 300,
                                    device="cpu", BLOCK_SIZE=32)
    assert is_alone(mask)
    ids[:] = torch.arange(300) // 170  # blocks stay those of before
    assert not is_alone(mask)
    check(*inputs(300, 300), mask)
    mask = torchs.create_block_mask(causal, None, None, 300, 300, device="cpu")
    assert is_alone(mask)
    mask.full_kv_num_blocks[0, 0, 1] = 0
    assert not is_alone(mask)
    check(*inputs(300, 300), mask)


def test_torchs_own_of_one_batch():
    """Blocks of the first batch alone do not stand for a mask_mod that differs
    between batches."""
    def by_batch(b, h, q, k):
        return k <= 100 * (b + 1)

    mask = torchs.create_block_mask(by_batch, None, None, 300, 300,
                                    device="cpu")
    assert not is_alone(mask)
    check(*inputs(300, 300), mask)


def blocks_by_hand(device="cpu"):
    """3 x 3 blocks of 100, of which the mask_mod knows nothing."""
    def rows(x):
        return torch.tensor([[x]], dtype=torch.int32, device=device)
    return BlockMask.from_kv_blocks(
        rows([2, 1, 0]), rows([[0, 2, 1], [2, 0, 1], [9, 9, 9]]),
        rows([0, 1, 1]), rows([[0, 1, 2], [1, 0, 2], [0, 2, 1]]),
        BLOCK_SIZE=100, mask_mod=causal)


def test_by_hand():
    mask = blocks_by_hand()
    q, k, v = inputs(300, 300)
    check(q, k, v, mask)
    check(q, k, v, mask, lambda s, b, h, q, k: s + (k - q) / 8)
    # The last block may be shorter than the lists say.
    check(q[:, :, :280], k[:, :, :290], v[:, :, :290], mask)


def test_by_hand_gradients():
    leaves = [x.requires_grad_() for x in inputs(300, 300)]
    mask = blocks_by_hand()
    seed = torch.randn(2, 4, 300, 32)
    got = torch.autograd.grad((flex_attention(
        *leaves, block_mask=mask) * seed).sum(), leaves)
    want = torch.autograd.grad((reference.attention(
        *leaves, block_mask=mask)[0] * seed).sum(), leaves)
    for x, y in zip(got, want):
        assert reference.error(x, y) < 2e-6


def test_slices():
    mod, _ = flex_zoo.MASKS["per_head"]((2, 4, 300, 300), "cpu")
    mask = create_block_mask(mod, 2, 4, 300, 300, "cpu", 64)
    q, k, v = inputs(300, 300)
    part = mask[:, :, 2]
    try:
        flex_attention(q[:, :, 128:192], k, v, block_mask=part)
        raise AssertionError("not refused")
    except RuntimeError as e:
        assert "sliced BlockMask" in str(e)
    part.mask_mod = lambda b, h, q, k: mod(b, h, q + 128, k)
    part.seq_lengths = (64, 300)  # before torch 2.12 a slice has the whole's
    got = flex_attention(q[:, :, 128:192], k, v, block_mask=part)
    want = reference.attention(q, k, v, None, mask)[0][:, :, 128:192]
    assert reference.error(got, want) < 2e-6
    check(q[1:], k[1:], v[1:], _with_mod(
        mask[1, :, :], lambda b, h, q, k: mod(b + 1, h, q, k)))


def _with_mod(mask, mod):
    mask.mask_mod = mod
    return mask


def test_changed_after_it_was_made():
    """Another mask_mod, other lists in place: both count."""
    q, k, v = inputs(300, 300)
    mask = create_block_mask(causal, None, None, 300, 300, "cpu", 100)
    check(q, k, v, mask)
    mask.kv_num_blocks[0, 0, 2] = 0
    check(q, k, v, mask)
    mask.full_kv_num_blocks[0, 0, 1] = 0
    check(q, k, v, mask)
    check(q, k, v, _with_mod(mask, noop_mask))
    check(q, k, v, _with_mod(mask, and_masks(causal, lambda b, h, q, k:
                                             q - k < 30)))


def results_of_changes(make):
    """Of a BlockMask, then of it and what it captures changed in place."""
    seen, tensors = torch.ones(300, dtype=torch.bool), inputs(300, 300)
    mask = make(lambda b, h, q, k: (q >= k) & seen[k], None, None, 300, 300,
                device="cpu")
    found = [flex_attention(*tensors, block_mask=mask)]
    assert is_alone(mask)
    seen[20:40] = False
    found.append(flex_attention(*tensors, block_mask=mask))
    mask.kv_num_blocks[0, 0, 2] = 0
    found.append(flex_attention(*tensors, block_mask=mask))
    return found


def test_inference_mode():
    """Its tensors count no versions; changes are seen all the same."""
    for make in (create_block_mask, torchs.create_block_mask):
        want = results_of_changes(make)
        with torch.inference_mode():
            got = results_of_changes(make)
        for x, y in zip(got, want):
            assert torch.equal(x, y)
        assert not torch.equal(want[0], want[1])
        assert not torch.equal(want[1], want[2])


def test_other_lengths():
    mask = create_block_mask(causal, None, None, 300, 300, device="cpu")
    for m, n, said in ((200, 300, "200"), (300, 301, "301")):
        try:
            flex_attention(*inputs(m, n), block_mask=mask)
            raise AssertionError("not refused")
        except ValueError as e:
            assert said in str(e) and "300 queries" in str(e)
    check(*inputs(200, 150), mask._adjust(200, 150))


def test_batches():
    """One for all; keys of one batch for several of queries."""
    q, k, v = inputs(130, 130)
    mask = create_block_mask(causal, 2, None, 130, 130, device="cpu")
    check(q, k[:1], v[:1], mask)
    leaf = k[:1].clone().requires_grad_()
    flex_attention(q, leaf, v[:1], block_mask=mask).sum().backward()
    true = k[:1].clone().requires_grad_()
    reference.attention(q, true, v[:1], None, mask)[0].sum().backward()
    assert reference.error(leaf.grad, true.grad) < 2e-6
    for bad in ((3, None), (None, 3)):
        mask = create_block_mask(causal, *bad, 130, 130, device="cpu")
        try:
            flex_attention(q, k, v, block_mask=mask)
            raise AssertionError("not refused")
        except ValueError as e:
            assert "3, query has" in str(e), e


def long_inputs():
    torch.manual_seed(0)
    return [torch.randn(1, 1, n, 16, requires_grad=True)
            for n in (520, 2100, 2100)]


def known_of(mask, q, k, v):
    """Whether a call takes its lists from the BlockMask."""
    device = torch.device("cpu")
    text, captured, has_blocks = _block_mask.mask_of(mask, device)
    return bool(has_blocks and _lists.known(
        mask, "mask.blocks.kinds" not in captured, q, k, v, None, text, None,
        None, False))


def check_long(mask, want_known):
    q, k, v = leaves = long_inputs()
    assert known_of(mask, q, k, v) == want_known
    seed = torch.randn(1, 1, 520, 16)
    o = flex_attention(q, k, v, block_mask=mask)
    want = reference.attention(q, k, v, None, mask)[0]
    assert reference.error(o, want) < 2e-6
    for x, y in zip(torch.autograd.grad((o * seed).sum(), leaves),
                    torch.autograd.grad((want * seed).sum(), leaves)):
        assert reference.error(x, y) < 3e-6


def test_lists_of_long_masks():
    """What no comparison bounds: the BlockMask's blocks are the lists."""
    ids = torch.arange(2100) // 300 * 3 % 7

    def documents(b, h, q, k):
        return ids[q + 1500] == ids[k]
    for sides in (128, 100, (64, 256)):
        mask = create_block_mask(documents, None, None, 520, 2100, "cpu",
                                 sides)
        check_long(mask, True)
    # Other documents in the same tensor: the blocks no longer count.
    ids.copy_(torch.arange(2100) // 200 % 5)
    q, k, v = long_inputs()
    assert not known_of(mask, q, k, v)
    want = reference.attention(q, k, v, None, create_block_mask(
        documents, None, None, 520, 2100, "cpu"))[0]
    assert reference.error(flex_attention(q, k, v, block_mask=mask),
                           want) < 2e-6


def test_ranges_of_long_masks():
    """Comparisons bound the loops: no lists."""
    mask = create_block_mask(causal, None, None, 520, 2100, device="cpu")
    check_long(mask, False)


def test_long_lists_by_hand():
    torch.manual_seed(2)
    table = torch.randint(0, 3, (1, 1, 5, 17))
    table[:, :, 2] = 0
    partial, full = [torchs._dense_to_ordered(table == n) for n in (1, 2)]
    mask = BlockMask.from_kv_blocks(
        *partial, *full, BLOCK_SIZE=128, seq_lengths=(520, 2100),
        mask_mod=lambda b, h, q, k: (q + k) % 3 != 0)
    check_long(mask, True)
    # Lists that the kernel has made must not be taken for others'.
    table[:, :, 2] = 2
    partial, full = [torchs._dense_to_ordered(table == n) for n in (1, 2)]
    check_long(BlockMask.from_kv_blocks(
        *partial, *full, BLOCK_SIZE=128, seq_lengths=(520, 2100),
        mask_mod=mask.mask_mod), True)


def test_no_mask_object():
    try:
        flex_attention(*inputs(8, 8), block_mask=causal)
        raise AssertionError("not refused")
    except TypeError as e:
        assert "create_block_mask" in str(e)


def refused(f, *args, **named):
    try:
        f(*args, **named)
    except Exception as e:
        return type(e), str(e)
    raise AssertionError("not refused")


def test_refuses_as_torch():
    """The kinds of errors, and how their texts begin, are torch's."""
    q, k, v = inputs(130, 130)
    mask = create_block_mask(causal, None, None, 130, 130, device="cpu")
    flat, meta = q[0], k.to("meta")
    for args, named in (
            ((q, meta, meta), {}), ((flat, flat, flat), {}),
            ((q, k[..., :16], v), {}), ((q, k[:, :2], v[:, :2]), {}),
            ((q, k[:, :3], v[:, :3]), dict(enable_gqa=True)),
            ((q, k[:1], v[:1]), {}),
            ((q, k, v), dict(block_mask=mask[:, :, 0])),
            ((q[:, :, :80], k, v), dict(block_mask=mask)),
            ((q, k, v), dict(block_mask=mask.to("meta"))),
            ((q, k, v), dict(kernel_options={"BACKEND": "X"})),
            ((q, k, v), dict(kernel_options={
                "BACKEND": "TRITON", "FORCE_USE_FLEX_ATTENTION": True})),
            ((q, k, v), dict(return_lse=True,
                             return_aux=AuxRequest(lse=True)))):
        try:
            kind, text = refused(torchs.flex_attention, *args, **named)
        except AssertionError:  # an older torch
            continue
        ours, said = refused(flex_attention, *args, **named)
        assert issubclass(ours, kind), (ours, kind, said)
        n = 0 if "NYI" in text else 26  # "NYI: .." says other ranks
        assert said[:n] == text[:n], (said, text)


def test_refuses_other_kinds():
    q, k, v = inputs(20, 20)
    for args, said in (
            (dict(kernel_options=3), "kernel_options is a int"),
            (dict(return_aux=True), "return_aux is a bool"),
            (dict(score_mod=lambda s, b, h, i, j: None), "returns None"),
            (dict(score_mod=lambda s, b, h, i, j: (s, b)), "a tuple"),
            (dict(key=k.numpy()), "key is a ndarray")):
        kind, text = refused(flex_attention, **{
            **dict(query=q, key=k, value=v), **args})
        assert kind is TypeError and said in text, (kind, text)


def test_warns_of_return_lse_as_torch():
    if not hasattr(torchs, "_warn_once"):
        return
    q, k, v = inputs(20, 20)
    torchs._WARNINGS_SHOWN.discard("deprecated_return_lse")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            flex_attention(q, k, v, return_lse=True)
    assert ["return_lse" in str(w.message) for w in found] == [True], found


def main():
    warnings.simplefilter("ignore")
    for name, f in list(globals().items()):
        if name.startswith("test_") and (
                not sys.argv[1:] or any(a in name for a in sys.argv[1:])):
            print(name, flush=True)
            f()
    print("passed")


main()
