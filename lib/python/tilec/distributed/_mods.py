# SPDX-License-Identifier: Apache-2.0
"""Mods of the whole sequence, for calls of tilec.attention on parts of it.

`shifted(..)` and `mapped(..)` (docs/masks.md) give mods other positions; here is
what these capture.
"""
import dataclasses
import functools
import typing

import torch

from .. import _api, _attention, _tensors, _texts

PLACES = ("q_offset", "k_offset", "q_map", "k_map", "h_offset", "q_total",
          "kv_total")


def placed(kind, text):
    """The text of a mod at other positions."""
    if not text:
        return None
    said, body = _texts.mod_of(text)
    return "%s(%s)\n%s" % (kind, said, body or "")


@dataclasses.dataclass
class Mods:
    """What a call asks for: texts, and what they capture, by name."""

    mask: typing.Optional[str]
    score: typing.Optional[str]
    captured: dict
    lengths: tuple  # of the whole: queries, keys
    spec: tuple  # scale, enable_gqa, kernel_options
    _names: dict = dataclasses.field(default_factory=dict)

    @property
    def key(self):
        return self.mask, self.score, self.lengths, repr(self.spec)

    def arguments(self, kind, with_mask, like, dtype, places,
                  only_mask=False):
        """mask_mod, score_mod, captured of a call. like: its q, k and v; dtype:
        that of o."""
        mask = placed(kind, self.mask) if with_mask else None
        score = None if only_mask else placed(kind, self.score)
        spec = (None, False, None) if only_mask else self.spec
        names = _captured_names(mask, score, spec, like, dtype)
        values = dict(places, q_total=self.lengths[0],
                      kv_total=self.lengths[1])
        captured = {}
        for name in names:
            own = name.partition(".")[2]
            if own in values and name not in self.captured:
                captured[name] = values[own]
            elif name in self.captured:
                captured[name] = self.captured[name]
            elif own in self.captured:
                captured[name] = self.captured[own]
        return dict(mask_mod=mask, score_mod=score, captured=captured)

    def of_mask(self, like):
        """What the mask captures of the caller, by full name."""
        if not self.mask:
            return {}
        found = self.arguments("mapped", True, like, "float32", {},
                               only_mask=True)
        return {n: x for n, x in found["captured"].items()
                if n.partition(".")[2] not in PLACES}


_known = {}


def _captured_names(mask, score, spec, like, dtype):
    """The full names of what mods capture: those of the parameters of a plan,
    which the call that asks for them needs anyway."""
    if not mask and not score:
        return ()
    key = mask, score
    found = _known.get(key)
    if found is None:
        scale, gqa, options = spec
        plan = _attention.plan_for(_attention.Spec(*_api._spec(
            *like, score, mask, scale, gqa, False, dtype, options)), *like)
        found = tuple(n for n in plan.captured
                      if n.startswith(("mask.", "score.")) and "." in n)
        if len(_known) > 1024:
            _known.clear()
        _known[key] = found
    return found


def of(mask_mod, score_mod, captured, device, lengths, spec):
    """The Mods of texts or Python functions."""
    captured, texts = dict(captured), []
    for mod, scored in ((mask_mod, False), (score_mod, True)):
        if callable(mod):
            from ..flex_attention import _mods
            found = _mods.of(mod, scored, device)
            texts.append(None if found.is_none else found.text)
            captured.update({} if found.is_none else found.captured)
        elif mod is None or isinstance(mod, str):
            texts.append(mod or None)
        else:
            raise TypeError("%s is a %s, expected text or a function" % (
                "score_mod" if scored else "mask_mod", type(mod).__name__))
    return Mods(*texts, captured, lengths, spec)


@functools.lru_cache(maxsize=256)
def reads(text, at):
    """Whether a mask reads its parameter number `at`: 0 batch, 1 head."""
    library = "\n".join(_api_mods().values())
    return _texts.reads_batch(text, at, library)


@functools.lru_cache(maxsize=1)
def _api_mods():
    import tilec
    found = tilec.mods()
    return found if isinstance(found, dict) else {
        n: tilec.mods()[n] for n in found}


def state(values):
    """What tells whether captured values have changed."""
    return tuple([(n, x.data_ptr(), _tensors.version(x), tuple(x.shape),
                   str(x.dtype))
                  if torch.is_tensor(x) else (n, x)
                  for n, x in sorted(values.items())])
