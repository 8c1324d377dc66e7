-- Leased mode: what each step of a key's runs has returned.
create table if not exists {steps} (
    tenant       text not null,
    scope        text not null,
    key          text not null,
    name         text not null,    -- as the handler names the step
    attempt      integer not null, -- the attempt that began it last
    result       blob,             -- JSON; null while the step is begun and not finished
    begun_at     integer not null,
    completed_at integer,
    primary key (tenant, scope, key, name)
);
