"""Recovery of writes that were interrupted.

An intent is written before the first effect of a write and removed after its publish. Each effect
names the intent it belongs to, so its origin can be determined afterwards: `recovery_decision`
observes and decides (pure functions of what was observed), `recover_writes` rolls forward or back.
"""

from omnigraph.storage.recovery.recover_writes import ExaminedIntent as ExaminedIntent
from omnigraph.storage.recovery.recover_writes import ResolvedIntent as ResolvedIntent
from omnigraph.storage.recovery.recover_writes import drop_created as drop_created
from omnigraph.storage.recovery.recover_writes import examine as examine
from omnigraph.storage.recovery.recover_writes import resolve_all as resolve_all
from omnigraph.storage.write_plan import list_operations as list_operations
from omnigraph.storage.write_plan import list_pending_intents as list_pending_intents
