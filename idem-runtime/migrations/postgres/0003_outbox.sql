-- Messages that commit with the writes they tell of, until a relay has sent them.
-- `id` is the order in which messages were written, which is not the order of commits: a relay
-- goes by the state of each row, never by the last id it has seen.
create table if not exists {outbox} (
    id           bigint generated always as identity primary key,
    message_id   text collate "C" not null, -- the same for every attempt
    topic        text collate "C" not null,
    key          text collate "C",          -- rows with the same key are sent one after the other
    headers      text not null,             -- a JSON object of strings
    payload      bytea not null,
    state        smallint not null,         -- 1 pending, 2 sent, 3 dead letter
    attempts     integer not null,          -- attempts that failed
    claim        integer not null,          -- fencing token: one more for each claim
    error        text,                      -- why the last attempt failed
    created_at   timestamptz not null,
    due_at       timestamptz not null,      -- no attempt before
    locked_until timestamptz,               -- end of a relay's lease
    sent_at      timestamptz,
    expires_at   timestamptz                -- sent rows: when the sweep removes them
);

-- As in the first migration.
do $$
declare
    present name[] := array(
        select i.relname from pg_index join pg_class as i on i.oid = indexrelid
        where indrelid = '{outbox}'::regclass
    );
begin
    if lower('{outbox}_due')::name <> all (present) then
        create index {outbox}_due on {outbox} (due_at, id) where state = 1;
    end if;
    if lower('{outbox}_key')::name <> all (present) then
        create index {outbox}_key on {outbox} (key, id) where state = 1;
    end if;
    if lower('{outbox}_expires_at')::name <> all (present) then
        create index {outbox}_expires_at on {outbox} (expires_at) where state = 2;
    end if;
    if lower('{outbox}_dead')::name <> all (present) then
        create index {outbox}_dead on {outbox} (id) where state = 3;
    end if;
end $$;
