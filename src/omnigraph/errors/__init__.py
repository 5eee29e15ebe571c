"""Every error the system raises, on one page.

Sorted by what the caller can do next:

    OmniError
    ├── InputError              fix the text, the data or the request
    │   ├── CompileError            a schema or query text with errors, all of them
    │   ├── BadRequest              a request that cannot be carried out as asked
    │   │   └── BadOptions              invalid or contradictory options
    │   ├── ParameterError          a query parameter missing, unknown or of the wrong type
    │   ├── RowsRejected            input rows that do not fit the schema, with their lines
    │   ├── ConstraintViolated      a write that would break a rule of the schema
    │   ├── UnsupportedSchemaChange a migration the planner refuses
    │   ├── BadExpression           an expression without a value for existing rows
    │   ├── SchemaDropsEverything   a schema that has none of the types of the graph
    │   ├── StampRefused            a graph written by another format version
    │   ├── ExternalBlobPolicy      an external blob address that is not allowed
    │   ├── BlobRangeNotSatisfiable a byte range outside the value
    │   ├── MissingPackage          an optional package that is not installed
    │   ├── ChangeCursorRejected    a change cursor that is damaged or of another feed
    │   ├── NotServed               an operation that needs the graph in storage
    │   ├── ClusterError            a cluster with errors, all of them
    │   └── MethodNotAllowed, NotAcceptable, UnsupportedMediaType, RequestTooSlow   over HTTP
    ├── NotFoundError           name something else
    │   ├── BranchNotFound, CommitNotFound, QueryNotFound, TypeNotFound, EntityNotFound
    │   ├── TagNotFound, ConsumerNotFound
    │   ├── BlobIsNull              an entity whose blob is null
    │   ├── GraphNotFound           no graph at this address
    │   ├── RouteNotFound           no route of the server at this path
    │   ├── WriteNotFound           no write with this idempotency key
    │   └── HistoricalVersionReclaimed, ChangeFeedGap   history that cleanup removed
    ├── ConflictError           read again, then redo it
    │   ├── ExpectedVersionMismatch, ReadSetChanged, RowLevelCasContention
    │   ├── KeyConflict             an id that must be new already exists
    │   ├── PreconditionFailed      the caller's expected head is not the head
    │   ├── RetryableCommitConflict the table commit lost a race and had no effect
    │   ├── WriterBusy              another writer holds the graph
    │   ├── UncoveredDrift          a table version that no write of the graph made
    │   ├── AlreadyExists, AlreadyInitialized, InitializationClaimed
    │   ├── CloneUnfinished         the target of an unfinished clone
    │   ├── SchemaContractMismatch  stored schema, its record and the manifest disagree
    │   ├── SchemaBreaksQueries     a schema that stored queries could not run with
    │   ├── SchemaOfCluster         a schema that a cluster manages
    │   ├── SchemaChangeBlocked     branches or tags that a change of the schema would break
    │   ├── MergeConflicts, MergeBaseUnavailable
    │   ├── IdempotencyKeyReused    an idempotency key used by another request
    │   ├── BlobChanged             the blob is not the expected one
    │   └── CommitHasNoParent, ChangeSchemaBoundary
    ├── DeniedError             ask for the right
    │   ├── NotAuthenticated        no valid token
    │   └── PolicyDenied            a policy that denies the action to the actor
    ├── LimitError              ask for less
    │   ├── InputTooLarge
    │   ├── ResourceLimitExceeded
    │   ├── TooManyRequests         too many requests of one actor; try again later
    │   │   └── ServerBusy              too many requests of all actors
    │   └── DeadlineExceeded        a query that exceeded its deadline
    ├── ServerError             look at the address, the network and the server
    │   ├── ServerUnreachable       no connection, or one that was lost
    │   └── UnexpectedAnswer        an answer that is not one of an OmniGraph server
    └── StorageError            call the operator; the outcome may be unknown
        ├── StorageFailure          Lance failed, with a kind
        ├── OutcomeUnknown          the write may or may not be visible: look it up before a retry
        ├── RecoveryRequired        an interrupted write must be recovered first
        ├── InitializationCommitted, InitializationIndeterminate
        ├── ManifestCorrupt         an invariant of the manifest does not hold
        ├── LinkInGraph             a symbolic link where the graph would write or delete
        ├── FilesMissing            missing files of a branch or a retained commit
        ├── ExternalBlobSource, BlobIntegrity
        └── EmbeddingFailed         a failure of the embedding provider

`code` is stable; wording is free. Every fact of an error is an attribute, and `wire()` is the
one mapping to the JSON error body, `http_status` to HTTP and `exit_code` to the shell.
"""

from omnigraph.errors.conflict_errors import *
from omnigraph.errors.not_found_errors import *
from omnigraph.errors.omni_error import *
from omnigraph.errors.request_errors import *
from omnigraph.errors.storage_errors import *
