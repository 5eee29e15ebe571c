"""Schema evolution: plan the migration to another schema, and apply it with the stored rows.

Planning compares the accepted schema with the desired one (`type_changes`,
`property_compatibility`) and yields ordered steps (`migration_plan`, `migration_steps`). Applying
plans the columns of each table and the values of new ones (`column_fill`), checks new rules on
stored rows (`rule_check`), and makes all of it one change for the write driver (`schema_apply`).
Nothing is published here.
"""
