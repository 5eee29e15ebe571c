"""A writer process for fence tests that reads its commands line by line from standard input.

fence_worker.py local|lease ROOT [TERM_S]

acquire WAIT     -> "held EPOCH took_over" or "busy HOLDER"
check            -> "ours" or "lost"
release          -> "released"
fork-and-keep    -> "forked PID"    leaves a forked child behind that does nothing
loop COUNT       -> "looped SECONDS"  counts up a file under the fence, COUNT times; SECONDS is
                    the longest wait
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from omnigraph.errors import ReadSetChanged, WriterBusy
from omnigraph.settings import Settings
from omnigraph.storage.lease_fence import LeaseFence, LeaseTerms
from omnigraph.storage.local_fence import LocalFence
from omnigraph.storage.objects.open_store import open_store


def make_fence(kind, root, term_s):
    if kind == "local":
        return LocalFence(Path(root))
    terms = LeaseTerms(term_s=term_s, renewal_s=term_s / 3, poll_s=term_s / 20)
    return LeaseFence(open_store(root, Settings.from_environment(os.environ)), terms=terms)


def fork_and_keep():
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    return child


def loop(fence, root, count):
    counter, longest = Path(root) / "counter", 0.0
    for _ in range(count):
        asked = time.monotonic()
        with fence.acquire(600):
            longest = max(longest, time.monotonic() - asked)
            value = int(counter.read_text())
            time.sleep(0.002)
            counter.write_text(str(value + 1))
    return longest


def main():
    kind, root, *rest = sys.argv[1:]
    fence, guard = make_fence(kind, root, float(rest[0]) if rest else 30.0), None
    print("ready", flush=True)
    for line in sys.stdin:
        verb, *arguments = line.split()
        match verb:
            case "acquire":
                try:
                    guard = fence.acquire(float(arguments[0]))
                    answer = f"held {guard.epoch} {guard.took_over}"
                except WriterBusy as busy:
                    answer = f"busy {busy.holder}"
            case "check":
                try:
                    guard.check()
                    answer = "ours"
                except ReadSetChanged as lost:
                    answer = f"lost {lost.member}: {lost.expected} -> {lost.actual}"
            case "release":
                guard.release()
                answer = "released"
            case "fork-and-keep":
                answer = f"forked {fork_and_keep()}"
            case "loop":
                answer = f"looped {loop(fence, root, int(arguments[0])):.3f}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
