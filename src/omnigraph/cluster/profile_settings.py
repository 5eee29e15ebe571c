"""The settings of a graph whose embedding profile was applied to a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from omnigraph.cluster.resource_settings import EmbeddingProfile
from omnigraph.errors import BadRequest
from omnigraph.settings import EmbedProvider, Settings

_REFERENCE = re.compile(r"\$\{(\w+)\}", re.ASCII)


def choose_settings(
    settings: Settings,
    profile: EmbeddingProfile | None,
    environment: Mapping[str, str],
    *,
    requires_key: bool = True,
) -> Settings:
    """The same settings with the provider of a profile instead of that of the environment.

    A key is taken from the variable that the profile names and from no other, for it goes to the
    address of the profile. Without `requires_key` it may be missing until a text is embedded.

    Raises:
        BadRequest: the variable is not set.
    """
    if profile is None:
        return settings
    provider = EmbedProvider(profile.kind)
    key = None
    if profile.api_key is not None:
        key = _find_key(profile.api_key, environment, is_required=requires_key)
    embed = replace(
        settings.embed,
        provider=provider,
        base_url=profile.base_url,
        model=profile.model,
        openrouter_api_key=key if provider is EmbedProvider.OPENAI_COMPATIBLE else None,
        openai_api_key=key if provider is EmbedProvider.OPENAI else None,
        gemini_api_key=key if provider is EmbedProvider.GEMINI else None,
    )
    return replace(settings, embed=embed)


def _find_key(reference: str, environment: Mapping[str, str], *, is_required: bool) -> str | None:
    match = _REFERENCE.fullmatch(reference)
    assert match is not None, "a profile with another key is not applied"
    key = environment.get(match[1], "").strip() or None
    if key is None and is_required:
        raise BadRequest(f"{match[1]} is not set; the embedding profile takes its key from it")
    return key
