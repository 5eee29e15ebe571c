"""Every way into a graph behind one shape, so that one list of cases runs through all of them.

A surface answers with the JSON document of the verb, or raises `Refused` with the JSON error body.
"""

from __future__ import annotations

from behaviour.command_surfaces import CliSurface, QuickCliSurface, ServedCliSurface
from behaviour.http_surface import HttpSurface
from behaviour.library_surfaces import ClientSurface, SdkSurface

DIRECT: dict[str, type] = {"sdk": SdkSurface, "cli": CliSurface}
SERVED: dict[str, type] = {"client": ClientSurface, "served": ServedCliSurface, "http": HttpSurface}
SURFACES = {**DIRECT, **SERVED}
QUICK_SURFACES = {**SURFACES, "cli": QuickCliSurface}
"""Run the command in this process."""
