"""Makes five durable writes; the tests have it killed after some of them."""

from __future__ import annotations

import sys

from crash.kill_points import KillAfter
from omnigraph.storage.objects.object_store import install_observer, report_write
from omnigraph.storage.objects.open_store import open_store

install_observer(KillAfter(int(sys.argv[2])))
store = open_store(sys.argv[1])
store.put("1", b"")
store.put_if_absent("1", b"refused, so it does not count")
store.put_if_absent("2", b"")
store.put_if_match("2", b"changed", store.get_versioned("2").tag)
store.delete("1")
with report_write("commit", "table"):
    print("committed", flush=True)
print("done", flush=True)
