-- One row for each key that is finished, or that a leased run has claimed.
-- Text is compared byte by byte (collate "C"): a key is case-sensitive.
create table if not exists {keys} (
    tenant       text collate "C" not null, -- who the caller is; empty for `tenant = shared`
    scope        text collate "C" not null, -- the operation, as the attribute names it
    key          text collate "C" not null, -- the client's key, or its digest
    fingerprint  bytea not null,            -- SHA-256 of the request, 32 bytes
    state        smallint not null,         -- 1 in progress, 2 finished, 3 response not kept, 4 needs reconciliation
    attempt      integer not null,          -- fencing token: 1, and one more for each take-over
    locked_until timestamptz,               -- leased mode: end of the lease
    status       smallint,                  -- HTTP status of the stored response
    headers      bytea,                     -- length-prefixed names and values
    body         bytea,
    created_at   timestamptz not null,
    completed_at timestamptz,
    expires_at   timestamptz not null,      -- from here on the key counts as new
    primary key (tenant, scope, key)
);

create index if not exists {keys}_expires_at on {keys} (expires_at);
