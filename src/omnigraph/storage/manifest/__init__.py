"""The manifest: which version of which table makes up the graph, and how it came to be.

`manifest_rows` is its layout, `state` what one version says (with every integrity check),
`manifest_changes` the pure step from one state to the next, `commits` the history kept with it.
"""
