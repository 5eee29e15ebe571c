"""The table of operations, which drives server, client and OpenAPI document."""
