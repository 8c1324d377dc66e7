-- Messages that commit with the writes they tell of, until a relay has sent them.
-- `id` is the order in which messages were written, which with one writer is the order of commits.
-- Times are milliseconds since the Unix epoch.
create table if not exists {outbox} (
    id           integer primary key autoincrement,
    message_id   text not null,    -- the same for every attempt
    topic        text not null,
    key          text,             -- rows with the same key are sent one after the other
    headers      text not null,    -- a JSON object of strings
    payload      blob not null,
    state        integer not null, -- 1 pending, 2 sent, 3 dead letter
    attempts     integer not null, -- attempts that failed
    claim        integer not null, -- fencing token: one more for each claim
    error        text,             -- why the last attempt failed
    created_at   integer not null,
    due_at       integer not null, -- no attempt before
    locked_until integer,          -- end of a relay's lease
    sent_at      integer,
    expires_at   integer           -- sent rows: when the sweep removes them
);

create index if not exists {outbox}_due on {outbox} (due_at, id) where state = 1;
create index if not exists {outbox}_key on {outbox} (key, id) where state = 1;
create index if not exists {outbox}_expires_at on {outbox} (expires_at) where state = 2;
create index if not exists {outbox}_dead on {outbox} (id) where state = 3;
