"""Settling writes that were interrupted.

An intent is written before the first effect of a write and removed after its publish. Each effect
names the intent it belongs to, so what is found afterwards can always be told apart:
`recovery_observation` looks, `recovery_decision` chooses (pure functions over what was seen),
`resolve_intents` finishes or undoes.
"""
