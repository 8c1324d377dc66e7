-- Leased mode: what each step of a key's runs has returned.
create table if not exists {steps} (
    tenant       text collate "C" not null,
    scope        text collate "C" not null,
    key          text collate "C" not null,
    name         text collate "C" not null, -- as the handler names the step
    attempt      integer not null,          -- the attempt that began it last
    result       bytea,                     -- JSON; null while the step is begun and not finished
    begun_at     timestamptz not null,
    completed_at timestamptz,
    primary key (tenant, scope, key, name)
);
