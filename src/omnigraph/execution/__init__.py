"""Plans and a snapshot to rows, or to staged writes. Nothing here makes anything visible."""
