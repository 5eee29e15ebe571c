"""Every error the system raises, on one page.

Sorted by what the caller can do next:

    OmniError
    ├── InputError              fix the text, the data or the request
    │   ├── CompileError            a schema or query file, with every mistake found in it
    │   ├── BadRequest              a request that cannot be carried out as asked
    │   │   └── BadOptions              options that mean nothing, or contradict each other
    │   ├── ParameterError          a query parameter missing, unknown or of the wrong type
    │   ├── RowsRejected            input rows that do not fit the schema, with their lines
    │   ├── ConstraintViolated      a write that would break a rule of the schema
    │   ├── UnsupportedSchemaChange a migration the planner refuses
    │   ├── BadExpression           what gives existing rows no values for a property
    │   ├── SchemaDropsEverything   a schema that has none of the types of the graph
    │   ├── StampRefused            a graph written by another format version
    │   ├── ExternalBlobPolicy      an external blob address that is not allowed
    │   ├── BlobRangeNotSatisfiable a byte range outside the value
    │   ├── MissingPackage          something only an optional package can do
    │   ├── ChangeCursorRejected    a change cursor that is damaged or belongs elsewhere
    │   ├── NotServed               something that cannot be done through a server
    │   ├── ClusterError            a cluster that is not in order, with everything found wrong
    │   └── MethodNotAllowed, NotAcceptable, UnsupportedMediaType, RequestTooSlow   over HTTP
    ├── NotFoundError           name something else
    │   ├── BranchNotFound, CommitNotFound, QueryNotFound, TypeNotFound, EntityNotFound
    │   ├── TagNotFound, ConsumerNotFound
    │   ├── BlobIsNull              an entity without a value where a blob was asked for
    │   ├── GraphNotFound           no graph at this address
    │   ├── RouteNotFound           nothing a server answers at this path
    │   ├── WriteNotFound           no write with this idempotency key
    │   └── HistoricalVersionReclaimed, ChangeFeedGap   history that cleanup removed
    ├── ConflictError           read again, then redo it
    │   ├── ExpectedVersionMismatch, ReadSetChanged, RowLevelCasContention
    │   ├── KeyConflict             an id that must be new already exists
    │   ├── PreconditionFailed      the caller's expected head is not the head
    │   ├── RetryableCommitConflict the storage layer lost a race without any effect
    │   ├── WriterBusy              another writer holds the graph
    │   ├── UncoveredDrift          a table moved outside the graph's own commits
    │   ├── AlreadyExists, AlreadyInitialized, InitializationClaimed
    │   ├── CloneUnfinished         a folder that will be a graph when a clone is finished
    │   ├── SchemaContractMismatch  stored schema, its record and the manifest disagree
    │   ├── SchemaBreaksQueries     a schema that stored queries could not run with
    │   ├── SchemaOfCluster         a schema that is changed in the files of a cluster
    │   ├── SchemaChangeBlocked     branches or tags that a change of the schema would break
    │   ├── MergeConflicts, MergeBaseUnavailable
    │   ├── IdempotencyKeyReused    the key of another request
    │   ├── BlobChanged             the blob is not the one the caller has seen
    │   └── CommitHasNoParent, ChangeSchemaBoundary
    ├── DeniedError             ask for the right
    │   ├── NotAuthenticated        no valid token
    │   └── PolicyDenied            a policy does not allow it to this actor
    ├── LimitError              ask for less
    │   ├── InputTooLarge
    │   ├── ResourceLimitExceeded
    │   ├── TooManyRequests         too much at once; try again later
    │   │   └── ServerBusy              too much of everybody's
    │   └── DeadlineExceeded        a query that took longer than it may
    ├── ServerError             look at the address, the network and the server
    │   ├── ServerUnreachable       no connection, or one that was lost
    │   └── UnexpectedAnswer        an answer that is not one of an OmniGraph server
    └── StorageError            call the operator; the outcome may be unknown
        ├── StorageFailure          Lance failed, with a kind
        ├── OutcomeUnknown          it may or may not have happened: look, never retry blindly
        ├── RecoveryRequired        an interrupted write must be recovered first
        ├── InitializationCommitted, InitializationIndeterminate
        ├── ManifestCorrupt         an invariant of the manifest does not hold
        ├── LinkInGraph             a symbolic link where the graph would write or delete
        ├── FilesMissing            a retained commit shows rows whose files are gone
        ├── ExternalBlobSource, BlobIntegrity
        └── EmbeddingFailed         the embedding provider did not answer properly

`code` is stable; wording is free. Every fact of an error is an attribute, and `wire()` is the
one mapping to the JSON error body, `http_status` to HTTP and `exit_code` to the shell.
"""

from omnigraph.errors.conflict_errors import *
from omnigraph.errors.not_found_errors import *
from omnigraph.errors.omni_error import *
from omnigraph.errors.request_errors import *
from omnigraph.errors.storage_errors import *
