// The schema, one step per version. Steps are never edited once released: a change is a new step.

/** Step n brings a database from `user_version` n to n + 1. */
export const MIGRATIONS: readonly string[] = [
  `
  create table api_key (
    id text primary key,
    name text not null,
    prefix text not null unique,
    hash text not null,
    tier text not null check (tier in ('high', 'normal', 'low')),
    admin integer not null,
    requests_per_minute integer,
    tokens_per_minute integer,
    max_concurrent integer,
    daily_tokens integer,
    created_ms integer not null,
    revoked_ms integer
  ) strict;

  -- A revoked key keeps its row, for its usage; its name is free again.
  create unique index live_key_name on api_key (name) where revoked_ms is null;

  create table key_usage (
    key_id text not null,
    day text not null,
    requests integer not null,
    prompt_tokens integer not null,
    cached_tokens integer not null,
    completion_tokens integer not null,
    errors integer not null,
    primary key (key_id, day)
  ) strict, without rowid;
  `,
];
