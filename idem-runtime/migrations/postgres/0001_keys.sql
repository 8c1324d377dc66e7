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

-- `create index if not exists` locks the table against writers before it looks: a process that starts
-- would wait for all that work, or deadlock with one of them.
do $$
declare
    present name[] := array(
        select i.relname from pg_index join pg_class as i on i.oid = indexrelid
        where indrelid = '{keys}'::regclass
    );
begin
    if lower('{keys}_expires_at')::name <> all (present) then
        create index {keys}_expires_at on {keys} (expires_at);
    end if;
end $$;
