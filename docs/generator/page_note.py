"""What every generated page says of itself."""

NOTE = "<!-- Written by `./dev docs` from the code; change the code, not this page. -->\n"
