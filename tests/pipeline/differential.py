"""One random load through several engines, which must end the same way."""

from __future__ import annotations

from pipeline.load_engines import outcome
from pipeline.random_loads import MODES, Inputs


def compare(templates, tmp_path, seed: int, engines: tuple[str, ...]) -> str:
    inputs = Inputs(seed)
    data, mode = inputs.lines().encode(), MODES[seed % 3]
    template = templates(seed % 5)
    ended = {
        engine: outcome(template, tmp_path / f"{seed}-{engine}", data, mode, engine)
        for engine in engines
    }
    first = ended[engines[0]]
    for engine in engines[1:]:
        assert ended[engine] == first, f"seed {seed}, mode {mode}, {engine}:\n{data.decode()}"
    return "loaded" if first.error is None else first.error[0]
