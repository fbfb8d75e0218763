// The schema, one step per version. A released step is never edited; a change is a new step (step 4
// no longer creates functions that step 6 drops and creates again). Steps are written for
// the embedded database, with a line for each column, and translated for Postgres unless it has its own text.

import { CAPPED_LIMITS, KEY_VERSION, SHARED_LIMITS } from './shared-schema.ts';

type Migration = string | { readonly embedded: string; readonly postgres: string };

/** Step n migrates from version n to n + 1. */
export const MIGRATIONS: readonly Migration[] = [
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
  `
  -- Responses that build on each other are one conversation, which is kept or forgotten as a whole.
  create table conversation (
    id text primary key,
    key_id text not null,
    used_ms integer not null,
    bytes integer not null
  ) strict;

  create index conversation_use on conversation (used_ms);
  create index conversation_owner on conversation (key_id, used_ms, bytes);

  create table response (
    id text primary key,
    conversation_id text not null,
    previous_id text,
    created_ms integer not null,
    bytes integer not null,
    body text not null
  ) strict;

  create index response_conversation on response (conversation_id);

  create table response_item (
    response_id text not null,
    position integer not null,
    id text not null,
    produced integer not null,
    body text not null,
    primary key (response_id, position)
  ) strict;

  create index response_item_id on response_item (id);
  `,
  `
  -- Batches of usage that were written: one whose outcome was not heard may be written again, and counts once.
  create table usage_flush (
    id text primary key,
    at_ms integer not null
  ) strict, without rowid;

  -- Requests whose usage counts once, whoever tells of it.
  create table charged_request (
    request_id text primary key,
    at_ms integer not null
  ) strict, without rowid;

  create index charged_request_time on charged_request (at_ms);
  `,
  // The embedded file itself shows that it has changed.
  { embedded: '', postgres: KEY_VERSION + SHARED_LIMITS },
  `
  -- Files of clients. One that is not complete is still being written, or was deleted and has chunks left.
  create table file (
    id text primary key,
    key_id text not null,
    purpose text not null,
    name text not null,
    bytes integer not null,
    complete integer not null,
    created_ms integer not null,
    expires_ms integer
  ) strict;

  create index file_owner on file (key_id, id);
  create index file_end on file (expires_ms);

  create table file_chunk (
    file_id text not null,
    position integer not null,
    body blob not null,
    primary key (file_id, position)
  ) strict;

  create table batch (
    id text primary key,
    key_id text not null,
    state text not null,
    -- What it becomes once its files are written.
    ending text,
    endpoint text not null,
    input_file_id text not null,
    output_file_id text,
    error_file_id text,
    output_seconds integer,
    metadata text,
    errors text,
    total integer not null,
    completed integer not null,
    failed integer not null,
    created_ms integer not null,
    expires_ms integer not null,
    in_progress_ms integer,
    finalizing_ms integer,
    cancelling_ms integer,
    ended_ms integer,
    -- Who reads its lines in or writes its files, and until when nobody else may.
    owner text,
    until_ms integer not null
  ) strict;

  create index batch_owner on batch (key_id, id);
  create index batch_open on batch (id) where ended_ms is null;

  create table batch_line (
    batch_id text not null,
    -- Counted from 1, as in the file.
    line integer not null,
    custom_id text not null,
    -- What is asked; gone once there is an answer.
    body text,
    attempts integer not null,
    -- Who runs it, and until when nobody else may.
    owner text,
    until_ms integer not null,
    answered_ms integer,
    succeeded integer,
    answer text,
    primary key (batch_id, line)
  ) strict;

  create index batch_line_open on batch_line (batch_id, line) where answered_ms is null;
  `,
  { embedded: '', postgres: CAPPED_LIMITS },
  `
  -- The part of the KV blocks that a key may hold.
  alter table api_key add column kv_share real;
  `,
  `
  -- The most that any gateway has told of the request, which is what was charged.
  alter table charged_request add column prompt_tokens integer not null default 0;
  alter table charged_request add column cached_tokens integer not null default 0;
  alter table charged_request add column completion_tokens integer not null default 0;
  `,
  `
  -- Streams that have begun, so that their clients can resume them.
  create table kept_request (
    name text primary key,
    key_id text not null,
    owner text not null,
    ended integer not null,
    at_ms integer not null,
    bytes integer not null,
    prompt_tokens integer,
    cached_tokens integer,
    completion_tokens integer,
    body blob not null,
    tokens blob
  ) strict;

  create index kept_request_end on kept_request (ended, at_ms);
  create index kept_request_key on kept_request (key_id);

  -- Tokens of answers as they come, of all answers of a server together: one row for each time it writes.
  create table kept_tokens (
    owner text not null,
    position integer not null,
    at_ms integer not null,
    body blob not null,
    primary key (owner, position)
  ) strict;
  `,
  `
  -- Responses that no client waits for, until they have ended.
  create table background_response (
    id text primary key,
    key_id text not null,
    created_ms integer not null,
    body text not null,
    streamed integer not null,
    shown text not null,
    cancelled integer not null,
    -- Who answers it, and until when nobody else may.
    owner text,
    until_ms integer not null
  ) strict;
  `,
];

export function embeddedText(step: Migration): string {
  return typeof step === 'string' ? step : step.embedded;
}

const POSTGRES_TYPES: Readonly<Record<string, string>> = {
  // Integers of any size, and texts ordered by bytes, as in the embedded database.
  integer: 'bigint',
  text: 'text collate "C"',
  blob: 'bytea',
  real: 'double precision',
};

export function postgresText(step: Migration): string {
  if (typeof step !== 'string') return step.postgres;
  return step
    .replace(
      /((?:^|add column)\s+\w+ )(integer|text|blob|real)\b/gm,
      (_, before: string, type: string) => before + POSTGRES_TYPES[type],
    )
    .replace(/\) (?:strict|without rowid)(?:, (?:strict|without rowid))*;/g, ');');
}
