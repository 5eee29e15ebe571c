"""Small control objects: branch refs, intents, claims, leases, the schema mirror.

`object_store` is the interface of a store, `local_store` and `s3_store` implement it, and
`open_store` picks one by address. Tables go through Lance instead. Exceptions of the operating
system and of the S3 client are translated here, to `StorageFailure`, or to `OutcomeUnknown` where a
write may or may not have taken effect.
"""

from omnigraph.storage.objects.object_store import ObjectStore as ObjectStore
from omnigraph.storage.objects.object_store import StoreKind as StoreKind
from omnigraph.storage.objects.open_store import normalize_root as normalize_root
from omnigraph.storage.objects.open_store import open_store as open_store
from omnigraph.storage.objects.open_store import (
    require_create_if_absent as require_create_if_absent,
)
