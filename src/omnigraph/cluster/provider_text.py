"""The embedding providers of `cluster.yaml`."""

from __future__ import annotations

import re

from omnigraph.cluster.config_values import ConfigValues
from omnigraph.cluster.resource_settings import EmbeddingProfile
from omnigraph.language.yaml_reader import Value
from omnigraph.settings import EmbedProvider

_KEYS = ("kind", "provider", "base_url", "model", "api_key")
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_WITHOUT_KEY = (EmbedProvider.MOCK, EmbedProvider.LOCAL)


class ProviderReader:
    def __init__(self, values: ConfigValues) -> None:
        self._values, self._yaml = values, values.yaml

    def read_providers(self, value: Value) -> dict[str, EmbeddingProfile | None]:
        """The providers by name; None stands for one with mistakes."""
        members = self._yaml.read_members(value, (), ("embedding",))
        if "embedding" not in members:
            return {}
        return self._values.read_resources(members["embedding"], self._read_provider)

    def _read_provider(self, name: str, key: Value, value: Value) -> EmbeddingProfile | None:
        what = f"provider '{name}'"
        members = self._yaml.read_members(Value(value.node, what), (), _KEYS)
        if "kind" in members and "provider" in members:
            message = f"{what} has 'kind' and 'provider', which mean the same"
            self._values.add("invalid_embedding_provider", message, members["provider"])
        texts = {one: self._yaml.read_name(member) for one, member in members.items()}
        kind = self._find_kind(texts.get("kind") or texts.get("provider"))
        if kind is None:
            message = f"{what} has no known kind; use one of {', '.join(EmbedProvider)}"
            where = members.get("kind") or members["provider"]
            self._values.add("invalid_embedding_provider", message, where)
            return None
        if "api_key" not in members and kind not in _WITHOUT_KEY:
            message = f"{what} needs 'api_key', as in ${{OPENAI_API_KEY}}"
            self._values.add("embedding_api_key_required", message, key)
        api_key = texts.get("api_key")
        if api_key is not None and not _VARIABLE.fullmatch(api_key):
            # The text may be a key and is not repeated.
            message = "'api_key' must be the name of a variable, as in ${OPENAI_API_KEY}"
            self._values.add("embedding_api_key_inline", message, members["api_key"])
            return None
        return EmbeddingProfile(
            kind=str(kind),
            base_url=texts.get("base_url"),
            model=texts.get("model"),
            api_key=api_key,
        )

    def _find_kind(self, word: str | None) -> EmbedProvider | None:
        if word is None:
            return EmbedProvider.OPENAI_COMPATIBLE
        return EmbedProvider(word) if word in set(EmbedProvider) else None
