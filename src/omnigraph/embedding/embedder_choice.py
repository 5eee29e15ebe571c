"""Choose the embedder that the settings name."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from omnigraph.embedding.embedder import Embedder, MockEmbedder, TextRole
from omnigraph.embedding.local_embedder import LOCAL_MODEL, LocalEmbedder, require_packages
from omnigraph.embedding.remote_embedder import (
    Dialect,
    GeminiDialect,
    OpenAiDialect,
    RemoteEmbedder,
    RetryPolicy,
    normalize_base_address,
)
from omnigraph.errors import BadRequest, EmbeddingFailed
from omnigraph.settings import EmbedProvider, EmbedSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Provider:
    base_url: str
    model: str
    dialect: Dialect


_PROVIDERS = {
    EmbedProvider.OPENAI_COMPATIBLE: _Provider(
        "https://openrouter.ai/api/v1", "openai/text-embedding-3-large", OpenAiDialect()
    ),
    EmbedProvider.OPENAI: _Provider(
        "https://api.openai.com/v1", "text-embedding-3-large", OpenAiDialect()
    ),
    EmbedProvider.GEMINI: _Provider(
        "https://generativelanguage.googleapis.com/v1beta", "gemini-embedding-2", GeminiDialect()
    ),
}


class LazyEmbedder:
    """The embedder of the settings, opened on first use.

    A graph can be opened and read without a key as long as no text is embedded.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None

    @property
    def model(self) -> str:
        return choose_model(self._settings)

    def embed(self, text: str, dimension: int, role: TextRole) -> list[float]:
        with self._lock:
            if self._embedder is None:
                self._embedder = open_embedder(self._settings)
        return self._embedder.embed(text, dimension, role)


def choose_model(settings: EmbedSettings) -> str:
    """Return the model of the embedder that the settings name."""
    if settings.model is not None or _is_mock(settings):
        return settings.model or ""
    if settings.provider is EmbedProvider.LOCAL:
        return LOCAL_MODEL
    return _PROVIDERS[settings.provider].model


def open_embedder(settings: EmbedSettings) -> Embedder:
    """Open the embedder that the settings name.

    Raises:
        EmbeddingFailed: its provider needs a key that is not set.
        BadRequest: the base URL is not one, or the provider does not have the model.
        MissingPackage: its provider needs a package that is not installed.
    """
    if _is_mock(settings):
        if settings.provider is not EmbedProvider.MOCK:
            _log.warning("embeddings are mock values: OMNIGRAPH_EMBEDDINGS_MOCK is set")
        return MockEmbedder(choose_model(settings))
    if settings.provider is EmbedProvider.LOCAL:
        return _open_local(settings)
    provider = _PROVIDERS[settings.provider]
    return RemoteEmbedder(
        dialect=provider.dialect,
        base_url=normalize_base_address(settings.base_url or provider.base_url),
        model=choose_model(settings),
        key=_find_key(settings),
        patience=RetryPolicy(
            timeout_s=settings.timeout_s,
            deadline_s=settings.deadline_s,
            attempts=settings.attempts,
            backoff_s=settings.backoff_s,
        ),
    )


def _open_local(settings: EmbedSettings) -> LocalEmbedder:
    if settings.model not in (None, LOCAL_MODEL):
        raise BadRequest(
            f"the embedding provider local has no model '{settings.model}', only '{LOCAL_MODEL}'"
        )
    require_packages()
    return LocalEmbedder()


def _is_mock(settings: EmbedSettings) -> bool:
    return settings.is_mock or settings.provider is EmbedProvider.MOCK


def _find_key(settings: EmbedSettings) -> str:
    openrouter = (EmbedSettings.variable("openrouter_api_key"), settings.openrouter_api_key)
    openai = (EmbedSettings.variable("openai_api_key"), settings.openai_api_key)
    candidates = {
        EmbedProvider.OPENAI_COMPATIBLE: (openrouter, openai),
        EmbedProvider.OPENAI: (openai,),
        EmbedProvider.GEMINI: (
            (EmbedSettings.variable("gemini_api_key"), settings.gemini_api_key),
        ),
    }[settings.provider]
    for _, key in candidates:
        if key:
            return key
    names = " or ".join(name for name, _ in candidates)
    raise EmbeddingFailed(f"{names} is required for the embedding provider {settings.provider}")
