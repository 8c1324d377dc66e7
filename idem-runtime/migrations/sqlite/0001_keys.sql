-- One row for each key that is finished, or that a leased run has claimed.
-- Times are milliseconds since the Unix epoch.
create table if not exists {keys} (
    tenant       text not null,    -- who the caller is; empty for `tenant = shared`
    scope        text not null,    -- the operation, as the attribute names it
    key          text not null,    -- the client's key, or its digest
    fingerprint  blob not null,    -- SHA-256 of the request, 32 bytes
    state        integer not null, -- 1 in progress, 2 finished, 3 response not kept, 4 needs reconciliation
    attempt      integer not null, -- fencing token: 1, and one more for each take-over
    locked_until integer,          -- leased mode: end of the lease
    status       integer,          -- HTTP status of the stored response
    headers      blob,             -- length-prefixed names and values
    body         blob,
    created_at   integer not null,
    completed_at integer,
    expires_at   integer not null, -- from here on the key counts as new
    primary key (tenant, scope, key),
    check (length(fingerprint) = 32)
);

create index if not exists {keys}_expires_at on {keys} (expires_at);
