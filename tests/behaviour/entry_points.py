"""Every way into a graph behind one shape, so that one list of cases runs through all of them.

A door answers with the JSON document of the verb, or raises `Refused` with the JSON error body.
"""

from __future__ import annotations

from behaviour.command_doors import CliDoor, QuickCliDoor, ServedCliDoor
from behaviour.http_door import HttpDoor
from behaviour.library_doors import ClientDoor, SdkDoor

DIRECT: dict[str, type] = {"sdk": SdkDoor, "cli": CliDoor}
SERVED: dict[str, type] = {"client": ClientDoor, "served": ServedCliDoor, "http": HttpDoor}
DOORS = {**DIRECT, **SERVED}
QUICK_DOORS = {**DOORS, "cli": QuickCliDoor}
"""The same with the command in this process."""
