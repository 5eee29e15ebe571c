"""Schema apply: another schema for a branch, with the rows that are there.

`catalog` says which steps lead from one schema to another. Here each type that stays is compared
with what it becomes (`column_plan`), the values of new columns are computed (`fillings`), rules
that are new are checked on the rows there are (`rule_scan`), and all of it is one change for the
write driver (`schema_apply`). Nothing becomes visible here.
"""
