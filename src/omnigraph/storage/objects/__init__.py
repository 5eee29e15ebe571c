"""Small control objects: branch refs, intents, claims, leases, the schema mirror.

`object_store` is the interface of a store, `local_store` and `s3_store` implement it, and
`open_store` picks one by address. Tables are not kept here; they go through Lance. Exceptions of
the operating system and of the S3 client end in this package: what leaves it is `StorageFailure`,
or `OutcomeUnknown` where a write may or may not have happened.
"""

from omnigraph.storage.objects.object_store import StoreKind as StoreKind
from omnigraph.storage.objects.open_store import (
    require_create_if_absent as require_create_if_absent,
)
