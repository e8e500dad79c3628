# SPDX-License-Identifier: Apache-2.0
#
# Do two safetensors files hold the same numbers, up to rounding? The norm of the
# difference of each tensor is at most 2^-8 of the norm of the first, whose
# numbers must be finite and not all 0.
#
#   same.py ONE.safetensors OTHER.safetensors
import array
import json
import math
import struct
import sys


def widened(kind, data):
    if kind == "F32":
        return array.array("f", data)
    if kind == "BF16":
        halves = array.array("H", data)
        return array.array("f", struct.pack("<%dI" % len(halves),
                                            *[h << 16 for h in halves]))
    if kind == "F16":
        return struct.unpack("<%de" % (len(data) // 2), data)
    return array.array({"I32": "i", "I64": "q"}[kind], data)


def tensors_of(name):
    with open(name, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        header = json.loads(f.read(size))
        data = f.read()
    header.pop("__metadata__", None)
    return {k: widened(t["dtype"], data[slice(*t["data_offsets"])])
            for k, t in header.items()}


def fault(one, other):
    if len(one) != len(other):
        return "%d numbers, expected %d" % (len(other), len(one))
    norm = math.sqrt(math.fsum(x * x for x in one))
    off = math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(one, other)))
    if not 0 < norm < math.inf:
        return "the norm of the first is %g" % norm
    return "" if off <= norm / 256 else "off by %g of %g" % (off, norm)


one, other = tensors_of(sys.argv[1]), tensors_of(sys.argv[2])
if not one or one.keys() != other.keys():
    sys.exit("tensors %s, expected %s" % (list(other), list(one)))
for name in one:
    why = fault(one[name], other[name])
    if why:
        sys.exit("%s: %s" % (name, why))
