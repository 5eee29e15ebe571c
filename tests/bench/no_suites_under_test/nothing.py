"""No suite here."""
