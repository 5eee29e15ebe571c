"""What an embedding provider answered, kept beside a graph until it is part of it."""

from __future__ import annotations

from omnigraph.pipeline.inputs import open_filesystem, store_path
from omnigraph.pipeline.kernels.text_vectors import Asking
from omnigraph.storage.layout import make_staging_path
from omnigraph.storage.root import GraphRoot


def make_asking(root: GraphRoot) -> Asking:
    """Who makes the vectors of rows that are written to a graph."""
    settings = root.settings
    return Asking(
        settings=settings.embed,
        dimension=0,  # that of each property
        answers=find_answers_folder(root),
        aws=settings.aws,
    )


def forget_answers(root: GraphRoot) -> None:
    """Remove what the provider answered, once it is part of the graph."""
    folder, aws = find_answers_folder(root), root.settings.aws
    store = open_filesystem(folder, aws)
    try:
        store.delete_dir(store_path(folder))
    except OSError:
        return  # nothing was asked, or it is garbage and harmless


def find_answers_folder(root: GraphRoot) -> str:
    """Where the answers for a graph wait until they are part of it."""
    place = root.location(make_staging_path("embed-answers")).native_uri
    return place.removeprefix("file://")
