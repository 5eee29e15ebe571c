"""The settings of an open graph, with their groups."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.environment import (
    FLAG,
    MEBIBYTES,
    SettingGroup,
    count,
    declare_setting,
    one_of_words,
    parse_seconds,
)
from omnigraph.settings.choices import FenceMode, LoadEngine
from omnigraph.settings.setting_groups import (
    AutopilotSettings,
    AwsSettings,
    EmbedSettings,
    InputSettings,
    SparkSettings,
    TraversalSettings,
)

_WRITES = "writes"
_MAINTENANCE = "maintenance"
_READS = "reads"
_SEARCH = "search"
_LOADS = "loads"


@dataclass(frozen=True, slots=True)
class Settings(SettingGroup):
    """What the environment asks for, parsed and checked."""

    writer_fence: FenceMode = declare_setting(
        "OMNIGRAPH_WRITER_FENCE",
        FenceMode.AUTO,
        one_of_words(FenceMode),
        "How writers in different processes are kept apart. `auto` uses the fence and warns once "
        "where the storage cannot offer one; `required` refuses to write there instead; `off` "
        "keeps apart only the threads of this process.",
        applies=_WRITES,
    )
    writer_wait_s: float = declare_setting(
        "OMNIGRAPH_WRITER_WAIT",
        30.0,
        parse_seconds(),
        "How long a writer waits for another one to finish before it gives up.",
        applies=_WRITES,
    )
    lease_term_s: float = declare_setting(
        "OMNIGRAPH_LEASE_TERM",
        30.0,
        parse_seconds(least=1),
        "On an object store, how long a writer may show no sign of life before another one takes "
        "over. The lease is renewed every third of that; all writers of a graph should be given "
        "the same.",
        applies=_WRITES,
    )
    write_concurrency: int = declare_setting(
        "OMNIGRAPH_WRITE_CONCURRENCY",
        8,
        count(least=1),
        "How many tables of one commit move at a time, while its publish is prepared; `1` does "
        "everything in turn.",
        applies=_WRITES,
        is_lenient=True,
    )
    fold_after: int = declare_setting(
        "OMNIGRAPH_FOLD_AFTER",
        64,
        count(),
        "A writer merges the small fragments of a table each time its version is a multiple of "
        "this; `0` leaves them to `optimize`.",
        applies=_WRITES,
    )
    cleanup_grace_s: float = declare_setting(
        "OMNIGRAPH_CLEANUP_GRACE",
        86_400.0,
        parse_seconds(),
        "How long cleanup leaves files and forks alone that nothing refers to, at least a minute. "
        "A small write that takes longer to prepare may have to start over. `0` says that nobody "
        "else writes. Bulk loads and `optimize` may take days.",
        applies=f"{_WRITES}, {_MAINTENANCE}",
    )
    maintenance_concurrency: int = declare_setting(
        "OMNIGRAPH_MAINTENANCE_CONCURRENCY",
        8,
        count(least=1),
        "How many tables maintenance works on at a time.",
        applies=_MAINTENANCE,
        is_lenient=True,
    )
    verify_reads: bool = declare_setting(
        "OMNIGRAPH_VERIFY_READS",
        False,
        FLAG,
        "`true` compares every file of a table with the checksum noted when it was written, before "
        "the file is first read in a process. On local disks; a file without a checksum is read.",
        applies=_READS,
    )
    autopilot: AutopilotSettings = AutopilotSettings()
    traversal: TraversalSettings = TraversalSettings()
    text_cache_bytes: int = declare_setting(
        "OMNIGRAPH_TEXT_CACHE_MIB",
        1 << 30,
        MEBIBYTES,
        "Memory of each open graph for the words of searched text columns. A column that needs "
        "more is read again for each search.",
        applies=_SEARCH,
    )
    vector_cache_bytes: int = declare_setting(
        "OMNIGRAPH_VECTOR_CACHE_MIB",
        1 << 29,
        MEBIBYTES,
        "Memory of each open graph for searched vector columns. A column that needs more is "
        "searched by its index, and without one read again for each search.",
        applies=_SEARCH,
    )
    embed: EmbedSettings = EmbedSettings()
    aws: AwsSettings = AwsSettings()
    spark: SparkSettings = SparkSettings()
    input: InputSettings = InputSettings()
    load_engine: LoadEngine = declare_setting(
        "OMNIGRAPH_LOAD_ENGINE",
        LoadEngine.AUTO,
        one_of_words(LoadEngine),
        "Where a load runs that is not given an engine: on Spark, in the process itself, or "
        "wherever it is done sooner, by the amount of input.",
        applies=_LOADS,
    )
