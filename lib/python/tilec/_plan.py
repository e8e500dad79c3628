# SPDX-License-Identifier: Apache-2.0
"""Plans: handles of what the library compiled for calls of one kind, and how
they are kept.

    _plans = _plan.Plans()
    plan = _plans.get_or_make(key, lambda: Plan(..))
"""
import ctypes as C
import sys
import threading

from . import _abi, _context, _errors, _launch

MOST = 128  # plans of a kind


class Plan:
    """A handle of tilec_<kind>_plan. Read-only: any number of threads may use
    it."""

    kind = None

    def __init__(self, device, *args):
        """args: of tilec_<kind>_plan, between the context and the result."""
        self.device = device
        self.used = 0  # by _launch.uses
        made = C.c_void_p()
        with _context.context() as cx, _context.on_device(device):
            status = getattr(_abi.lib, "tilec_%s_plan" % self.kind)(
                cx, *args, C.byref(made))
            if status:
                raise _errors.compile_failed(cx, status)
            self.handle = made
            _errors.warn(cx)  # raises if the caller's filters say so

    def __del__(self, is_ending=sys.is_finalizing):
        # A process that ends takes the driver along, before or after this.
        if getattr(self, "handle", None) and not is_ending():
            getattr(_abi.lib, "tilec_%s_free" % self.kind)(self.handle)


class Plans(dict):
    """Plans by what they were made for. If there are too many, the least
    recently used one goes; a thread that runs it keeps it alive."""

    def __init__(self, dropped=lambda: None):
        """dropped is called when a plan goes."""
        super().__init__()
        self.in_graphs = set()  # a CUDA graph may launch them at any time
        self._dropped = dropped
        self._lock = threading.Lock()

    def get_or_make(self, key, make):
        plan = self.get(key)
        if plan is None:
            with self._lock:
                plan = self.get(key)
                if plan is None:
                    plan = make()
                    self._keep(key, plan)
        plan.used = next(_launch.uses)
        return plan

    def _keep(self, key, plan):
        if len(self) >= MOST:
            oldest = min((k for k, p in self.items()
                          if p not in self.in_graphs),
                         key=lambda k: self[k].used, default=None)
            self.pop(oldest, None)
            self._dropped()
        self[key] = plan

    def note_capture(self, plan):
        """Keeps the plan for good if a CUDA graph captures its launches."""
        if _context.is_capturing(plan.device):
            self.in_graphs.add(plan)
