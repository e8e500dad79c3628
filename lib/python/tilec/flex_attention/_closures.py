# SPDX-License-Identifier: Apache-2.0
"""What a Python mod depends on: its code, and the values that it captures.

    slopes = torch.rand(8); w = 100
    def mod(score, b, h, q, k):
        return torch.where(q - k < w, score + slopes[h], -inf)

    key      the code, and the kinds of `slopes` (type, rank) and `w` (int)
    tensors  [slopes]
    numbers  [100]

Two mods with equal keys have the same trace, whatever their tensors hold and
their numbers are. Found anew at each call, so that closures and globals which
have changed since are seen: cells, defaults, arguments of functools.partial,
globals, and of other objects the attributes that the code names.
"""
import enum
import functools
import types
import weakref

import torch

_ATOMS = (type(None), bool, str, bytes, complex, torch.dtype, torch.device,
          torch.layout, torch.memory_format, type(Ellipsis), range, slice)
# Modules that change nothing: what is theirs is known by its identity.
_FIXED = frozenset((
    "torch", "math", "cmath", "operator", "functools", "itertools", "numpy",
    "builtins", "typing", "collections", "enum", "tilec"))
_BUILTIN = (types.BuiltinFunctionType, types.MethodWrapperType, type,
            types.WrapperDescriptorType, types.MethodDescriptorType)


@functools.lru_cache(maxsize=1024)
def _names(code):
    """The names of globals and attributes that code and the functions in it
    use."""
    found = dict.fromkeys(code.co_names)
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            found.update(dict.fromkeys(_names(c)))
    return tuple(found)


def _is_fixed(name):
    return (name or "").partition(".")[0] in _FIXED


class Closure:
    """One walk over a mod.

    With `replace`, a list for tensors and one for numbers, the walk makes
    `function`: the same mod with these instead. A value that is reached through
    an attribute stays what it is: its tensor is in `tensors` and its index in
    `constants`, its number is part of the key.
    """

    def __init__(self, mod, replace=None):
        self.key, self.tensors, self.numbers = [], [], []
        self.names = ([], [])  # of tensors and numbers, for readers
        self.constants = set()
        self.held = []  # whose identity is part of the key
        self._replace = replace
        self._seen = {}  # id: index of the visit, replacement
        self._alive = []  # objects made for the walk, so that ids stay theirs
        self._free = True  # values here can be replaced
        self.function = self._visit(mod, "mod", ())
        self.key = tuple(self.key)

    def without_values(self):
        """Lets go of all that the mod holds. Gives functions that give the
        objects in the key by identity, or None where one is gone."""
        self.tensors = [torch.empty(x.shape, dtype=x.dtype, device="meta")
                        for x in self.tensors]
        held, self.held, self._alive, self._seen = self.held, [], [], {}
        self.function = None
        return [_weak(x) for x in held]

    # Each gives what stands for x in the new mod.

    def _visit(self, x, name, uses):
        kind = type(x)
        if kind is int or kind is float:
            return self._number(x, name)
        if kind in _ATOMS:
            # True == 1 == 1.0, and -0.0 == 0.0: the type is part of the key.
            self.key.append((kind, x) if kind not in (slice, complex)
                            else (kind, repr(x)))
            return x
        if isinstance(x, torch.Tensor):
            return self._tensor(x, name)
        seen = self._seen.get(id(x))
        if seen is not None:
            self.key.append(("same", seen[0]))
            return seen[1]
        self._seen[id(x)] = len(self._seen), x
        if kind is types.FunctionType:
            new = self._function(x)
        elif isinstance(x, (tuple, list)):
            new = self._sequence(x, name, uses)
        elif isinstance(x, dict):
            new = self._dict(x, name, uses)
        elif isinstance(x, functools.partial):
            new = self._partial(x, uses)
        elif kind is types.MethodType:
            self.key.append("method")
            new = self._method(x)
        else:
            new = self._object(x, uses)
        self._seen[id(x)] = self._seen[id(x)][0], new
        return new

    def _number(self, x, name):
        if not self._free:
            self.key.append((type(x), repr(x)))
            return x
        self.key.append(type(x))
        self.numbers.append(x)
        self.names[1].append(name)
        return x if self._replace is None else \
            self._replace[1][len(self.numbers) - 1]

    def _tensor(self, x, name):
        seen = self._seen.get(id(x))
        if seen is not None:
            self.key.append(("same", seen[0]))
            return seen[1]
        at = len(self.tensors)
        self.tensors.append(x)
        self.names[0].append(name)
        new = x
        if self._free:
            # Lengths of 0 and 1 broadcast, others are as good as any other.
            self.key.append((x.dtype, tuple([n if n < 2 else -1
                                             for n in x.shape]),
                             x.device.type))
            if self._replace is not None:
                new = self._replace[0][at]
        else:
            self.constants.add(at)
            self.key.append((x.dtype, tuple(x.shape), x.device.type))
        self._seen[id(x)] = len(self._seen), new
        return new

    def _all(self, values, names, uses):
        return [self._visit(x, n, uses) for x, n in zip(values, names)]

    def _sequence(self, x, name, uses):
        self.key.append((type(x), len(x)))
        new = self._all(x, [name] * len(x), uses)
        if self._replace is None or not self._free:
            return x
        return type(x)._make(new) if hasattr(x, "_make") else \
            new if type(x) is list else tuple(new)

    def _dict(self, x, name, uses):
        for key in x:
            if not isinstance(key, (str, int, float, enum.Enum, torch.dtype)):
                self._identity(key)
        self.key.append((type(x), tuple([(type(k), k) for k in x])))
        new = self._all(x.values(), ["%s_%s" % (name, k) for k in x], uses)
        return x if self._replace is None or type(x) is not dict else \
            dict(zip(x, new))

    def _partial(self, x, uses):
        self.key.append(("partial", len(x.args), tuple(x.keywords)))
        f = self._visit(x.func, "func", uses)
        args = self._all(x.args, ["arg"] * len(x.args), uses)
        named = self._all(x.keywords.values(), x.keywords, uses)
        return x if self._replace is None or not self._free else \
            functools.partial(f, *args, **dict(zip(x.keywords, named)))

    def _function(self, f):
        code = f.__code__
        self.key.append(id(code))
        self.held.append(code)
        uses = _names(code)
        cells = [self._cell(c, n, uses)
                 for c, n in zip(f.__closure__ or (), code.co_freevars)]
        defaults = f.__defaults__
        if defaults:
            first = code.co_argcount - len(defaults)
            defaults = tuple(self._all(
                defaults, code.co_varnames[first:code.co_argcount], uses))
        named = f.__kwdefaults__
        if named:
            named = dict(zip(named, self._all(named.values(), named, uses)))
        changed = self._globals(f, uses)
        if self._replace is None or not self._free:
            return f
        new = types.FunctionType(
            code, {**f.__globals__, **changed} if changed else f.__globals__,
            f.__name__, defaults, tuple(cells))
        new.__kwdefaults__ = named
        return new

    def _cell(self, cell, name, uses):
        seen = self._seen.get(id(cell))
        if seen is not None:
            self.key.append(("same", seen[0]))
            return seen[1]
        self._seen[id(cell)] = len(self._seen), cell
        try:
            x = cell.cell_contents
        except ValueError:  # not assigned yet
            self.key.append("empty")
            return cell
        new = self._visit(x, name, uses)
        if self._replace is None or not self._free:
            return cell
        made = types.CellType(new)
        self._seen[id(cell)] = self._seen[id(cell)][0], made
        return made

    def _globals(self, f, uses):
        """Those that the function may read, {name: replacement}."""
        changed = {}
        if _is_fixed(f.__module__):
            return changed
        space = f.__globals__
        for name in uses:
            if name in space:
                self.key.append(name)
                new = self._visit(space[name], name, uses)
                if new is not space[name]:
                    changed[name] = new
        return changed

    def _method(self, x):
        f = x.__func__
        free, self._free = self._free, False
        try:
            self._visit(f, "func", ())
            uses = _names(f.__code__) if isinstance(f, types.FunctionType) \
                else ()
            self._visit(x.__self__, "self", uses)
        finally:
            self._free = free
        return x

    def _identity(self, x):
        self.key.append((type(x), id(x)))
        self.held.append(x)

    def _object(self, x, uses):
        """Any other object: by its identity, and the attributes in use."""
        self._identity(x)
        if isinstance(x, _BUILTIN) or isinstance(x, enum.Enum):
            return x
        if isinstance(x, types.ModuleType) and _is_fixed(x.__name__):
            return x
        free, self._free = self._free, False
        try:
            call = _call_of(x)
            if call is not None:
                self._visit(call, "func", ())
                uses = (*uses, *_names(call.__code__))
            self._attributes(x, uses)
        finally:
            self._free = free
        return x

    def _attributes(self, x, uses):
        for name in uses:
            try:
                value = getattr(x, name)
            except Exception:  # also of a property
                continue
            self._alive.append(value)
            self.key.append(name)
            self._visit(value, name, uses)


def _weak(x):
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: x


def _call_of(x):
    """The function that runs when x is called."""
    name = "forward" if isinstance(x, torch.nn.Module) else "__call__"
    f = getattr(type(x), name, None)
    return f if isinstance(f, types.FunctionType) else None
