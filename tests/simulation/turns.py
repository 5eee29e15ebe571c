"""Scheduling of simulated processes, one thread at a time, chosen by a seeded draw.

Every call that leaves a process is a *step*. Before it takes effect the draw decides which process
continues, and whether this one dies, is suspended, or loses the answer. Threads are real, but each
waits for its gate, so that a run is the same whenever the seed is.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from math import inf

STEP_S = 0.02
"""The maximum duration of a step, by the true clock."""
MAX_STEPS = 60_000
"""A run of more steps than this does not terminate."""
DAY_US = 86_400_000_000
EPOCH_US = 1_800_000_000_000_000


class Crashed(BaseException):
    """The process is dead: nothing it does from here on has an effect."""


class Stuck(Exception):
    """No process can continue, or none ever ends."""


class Fault(Enum):
    """A failure of one effect of a process that continues."""

    REFUSED = "it is not carried out"
    ANSWER_LOST = "it is carried out and the answer is lost"


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of a process, and the effect at which it happens, counted from its start."""

    dies_before: int | None = None
    suspended_before: int | None = None
    suspended_s: float = 0.0
    suspended_at: str = ""
    """The prefix of the effects counted until it is suspended; by default of all."""
    suspended_in_reads: bool = False
    """True if reads and listings are counted too."""
    faults: dict[int, Fault] = field(default_factory=dict)


UNTROUBLED = Fate()


@dataclass(eq=False)
class Process:
    """One simulated process: its clock, its fate, and whether it is alive."""

    number: int
    fate: Fate = UNTROUBLED
    clock_off_us: int = 0
    jumps: tuple[tuple[float, int], ...] = ()
    """The changes of its clock: their times and amounts."""
    is_dead: bool = False
    was_suspended: bool = False
    suspended_until: float = 0.0
    effects: int = 0
    chances_to_suspend: int = 0


class Strand:
    """A thread of a process, waiting for its turn."""

    __slots__ = ("gate", "is_done", "process", "ready_after", "waits_for")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.gate = threading.Lock()
        self.gate.acquire()
        self.ready_after = 0.0
        self.waits_for: Callable[[], bool] | None = None
        self.is_done = False

    def ready_at(self) -> float:
        """The time from which it can continue, by the true clock."""
        if self.process.is_dead:
            return 0.0
        if self.waits_for is not None and self.waits_for():
            return self.process.suspended_until
        return max(self.ready_after, self.process.suspended_until)


class Turns:
    """The draw, the true clock, and the threads of all processes of one run."""

    def __init__(self, chance: random.Random, switching: float) -> None:
        self.chance, self.switching = chance, switching
        self.now_s = 0.0
        self.steps = self.effects = self.crashes = self.suspensions = self.faults = (
            self.switches
        ) = 0
        self.trace: list[str] | None = None
        """A line of text for each step, if traced."""
        self.problem: BaseException | None = None
        self._strands: list[Strand] = []
        self._over = threading.Lock()
        self._running: Strand | None = None

    # --- the running process ----------------------------------------------------------------------

    @property
    def process(self) -> Process:
        """The process that runs now."""
        assert self._running is not None, "a process runs"
        return self._running.process

    @property
    def strand(self) -> Strand:
        """The thread that runs now."""
        assert self._running is not None, "a process runs"
        return self._running

    def clock_us(self) -> int:
        """The wall clock of the running process: off by days, and set while it runs."""
        process = self.process
        off = process.clock_off_us + sum(by for at, by in process.jumps if at <= self.now_s)
        return EPOCH_US + int(self.now_s * 1_000_000) + off

    def look(self, what: str) -> None:
        """A step without an effect."""
        self._step(what)
        if self.process.fate.suspended_in_reads:
            self._perhaps_suspend(what)
        self._hand_over()

    def act(self, what: str) -> Fault | None:
        """Take a step right before an effect, and return the fault of that effect."""
        process = self.process
        self._step(what)
        process.effects += 1
        self.effects += 1
        fate, at = process.fate, process.effects
        if at == fate.dies_before:
            self.crashes += 1
            self._die(what)
        self._perhaps_suspend(what)
        self._hand_over()
        fault = fate.faults.get(at)
        self.faults += fault is not None
        return fault

    def wait(self, ready: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Let others run until the condition holds or the time is over; return the condition."""
        me = self.strand
        self._refuse_dead()
        me.waits_for = ready
        me.ready_after = inf if timeout_s is None else self.now_s + timeout_s
        self._hand_over()
        me.waits_for, me.ready_after = None, 0.0
        return ready()

    def _step(self, what: str) -> None:
        self._refuse_dead()
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Stuck(f"{MAX_STEPS} steps, the last of them {what}")
        self.now_s += STEP_S * self.chance.random()
        self._trace("", what)

    def _perhaps_suspend(self, what: str) -> None:
        process, fate = self.process, self.process.fate
        process.chances_to_suspend += what.startswith(fate.suspended_at)
        if process.chances_to_suspend == fate.suspended_before and not process.was_suspended:
            self.suspensions += 1
            process.was_suspended = True
            process.suspended_until = self.now_s + fate.suspended_s
            self._trace("suspended before", what)

    def _refuse_dead(self) -> None:
        if self.process.is_dead:
            raise Crashed

    def _die(self, what: str) -> None:
        self._trace("dies before", what)
        self.process.is_dead = True
        raise Crashed

    def _trace(self, how: str, what: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now_s:9.3f} p{self.process.number} {how} {what}")

    # --- taking turns -----------------------------------------------------------------------------

    def start(self, process: Process, work: Callable[[], None]) -> Strand:
        """A thread of a process; it runs when it is drawn."""
        strand = Strand(process)
        self._strands.append(strand)
        threading.Thread(target=self._live, args=(strand, work), daemon=True).start()
        return strand

    def run(self) -> None:
        """Run every process to its end, and raise the first internal error."""
        self._over.acquire()
        if self._strands:
            self._pass_to(self._choose(None))
            self._over.acquire()
        self._over.release()
        self._strands.clear()
        if self.problem is not None:
            raise self.problem

    def _live(self, strand: Strand, work: Callable[[], None]) -> None:
        strand.gate.acquire()
        try:
            work()
        except Crashed:
            strand.process.is_dead = True
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            self._end_all(error)
        strand.is_done = True
        self._strands.remove(strand)
        if not self._strands:
            self._running = None
            self._over.release()
            return
        try:
            following = self._choose(None)
        except Stuck as error:
            self._end_all(error)
            following = self._choose(None)
        self._pass_to(following)

    def _end_all(self, error: BaseException) -> None:
        """End all processes after an error, and retain the first one."""
        self.problem = self.problem or error
        for one in self._strands:
            one.process.is_dead = True

    def _hand_over(self) -> None:
        me = self.strand
        chosen = self._choose(me)
        if chosen is not me:
            self.switches += 1
            self._pass_to(chosen)
            me.gate.acquire()
        self._refuse_dead()

    def _pass_to(self, strand: Strand) -> None:
        self._running = strand
        strand.gate.release()

    def _may_continue(self, me: Strand) -> bool:
        if me.waits_for is not None or me.process.suspended_until > self.now_s:
            return False
        return len(self._strands) == 1 or self.chance.random() >= self.switching

    def _choose(self, me: Strand | None) -> Strand:
        if me is not None and self._may_continue(me):
            return me
        times = [strand.ready_at() for strand in self._strands]
        first = min(times)
        if first == inf:
            raise Stuck("every process waits for another one")
        self.now_s = max(self.now_s, first)
        ready = [s for s, at in zip(self._strands, times, strict=True) if at <= self.now_s]
        return ready[0] if len(ready) == 1 else self.chance.choice(ready)
