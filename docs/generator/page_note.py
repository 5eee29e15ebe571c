"""The note on every generated page."""

NOTE = "<!-- Written by `./dev docs` from the code; change the code, not this page. -->\n"
