"""People with restricted addresses and salaries, and the rules that restrict them.

maria may do everything, bot may read a part and change branches that are not protected, side may
read those; what will may do is for the test to say. eve may do nothing.
"""

ACTORS = ("maria", "bot", "side", "will", "eve")
SCHEMA = """\
node Person { name: String @key  age: I32?  email: String?  photo: Blob? }
node Salary { name: String @key  amount: I64 }
edge Knows: Person -> Person { since: I32? }
"""
RULES = """\
version: 1
groups: { admins: [maria], agents: [bot], outsiders: [side], others: [will] }
protected_branches: [main]
rules:
  - id: admins
    allow:
      actors: { group: admins }
      actions: [read, export, change, branch_create, branch_delete, branch_merge, schema_apply]
  - id: agents-read
    allow:
      actors: { group: agents }
      actions: [read, export]
      except: [Person.email, Person.photo, Salary]
  - id: agents-change
    allow: { actors: { group: agents }, actions: [change], branch_scope: unprotected }
  - id: agents-branch
    allow:
      actors: { group: agents }
      actions: [branch_create, branch_delete]
      target_branch_scope: unprotected
  - id: outsiders
    allow: { actors: { group: outsiders }, actions: [read, export], branch_scope: unprotected }
"""
"""More rules may follow."""
