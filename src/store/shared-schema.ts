// What Postgres needs besides the stores' tables where several gateways share it: a version of the keys, and limits
// of keys across gateways. `limit-store.ts` calls the functions.

/** A trigger counts, so that changes made by hand are seen too. */
export const KEY_VERSION = `
  create table key_version (
    version bigint not null
  );

  insert into key_version values (0);

  create function count_key_change() returns trigger language plpgsql as $$
  begin
    update key_version set version = version + 1;
    return null;
  end
  $$;

  create trigger api_key_change after insert or update or delete or truncate on api_key
    for each statement execute function count_key_change();
`;

/**
 * The arithmetic is that of MinuteBucket and DailyBudget: limits per minute count in 1/60000, so that they drain by
 * whole numbers. Every function locks the key's row first. The server's clock counts unless the caller passes one.
 * Unlogged tables: nothing needs to survive a crash of the server, and no admission waits for a disk.
 */
export const SHARED_LIMITS = `
  create unlogged table key_limit (
    key_id text collate "C" primary key,
    requests_used bigint not null default 0,
    requests_drained_ms bigint not null default 0,
    tokens_used bigint not null default 0,
    tokens_drained_ms bigint not null default 0,
    -- Of the day: what settled requests have used. Usage has it all, but a second later.
    day text collate "C" not null default '',
    day_tokens bigint not null default 0,
    -- How long requests take.
    mean_ms double precision
  ) with (fillfactor = 50);

  -- Whoever was not seen for a while is dead, and its requests no longer count.
  create unlogged table limit_gateway (
    id text collate "C" primary key,
    seen_ms bigint not null
  ) with (fillfactor = 50);

  create unlogged table running_request (
    id text collate "C" primary key,
    key_id text collate "C" not null,
    gateway_id text collate "C" not null,
    started_ms bigint not null,
    held_tokens bigint not null
  );

  create index running_request_key on running_request (key_id);

  create type limit_standing as (
    ok boolean,
    now_ms bigint,
    requests_used bigint,
    tokens_used bigint,
    day_tokens bigint,
    reserved_tokens bigint,
    running bigint,
    oldest_ms bigint,
    mean_ms double precision,
    -- As they are kept; day_tokens is what counts.
    day text,
    settled_tokens bigint
  );

  create function limit_drained(used bigint, elapsed_ms bigint, per_minute bigint) returns bigint
  language sql immutable as $$
    select case when elapsed_ms <= 0 then used
      when elapsed_ms > used / per_minute then 0
      else used - elapsed_ms * per_minute end
  $$;

  create function limit_day(now_ms bigint) returns text language sql stable as $$
    select to_char(to_timestamp(now_ms / 1000) at time zone 'UTC', 'YYYY-MM-DD')
  $$;

  -- The gateway lives; forgets those that do not, unless it was away itself: then the others may have been as well. How
  -- many live.
  create function limit_beat(gateway text, alive_ms bigint, given_ms bigint) returns bigint language plpgsql as $$
  declare
    now_ms bigint := coalesce(given_ms, floor(extract(epoch from clock_timestamp()) * 1000)::bigint);
    was_here boolean;
  begin
    select seen_ms > now_ms - alive_ms into was_here from limit_gateway where id = gateway;
    insert into limit_gateway values (gateway, now_ms) on conflict (id) do update set seen_ms = excluded.seen_ms;
    if was_here then
      delete from limit_gateway where id in (
        select id from limit_gateway where seen_ms <= now_ms - alive_ms for update skip locked);
      delete from running_request
        where not exists (select 1 from limit_gateway where limit_gateway.id = gateway_id);
    end if;
    return (select count(*) from limit_gateway where seen_ms > now_ms - alive_ms);
  end
  $$;

  create function limit_leave(gateway text) returns void language sql as $$
    delete from running_request where gateway_id = gateway;
    delete from limit_gateway where id = gateway;
  $$;
`;

/**
 * Answers are capped to what is left. A hold drains in the order it came, and only what has not drained is given
 * back; a day's overdraft is carried over to the next.
 */
export const CAPPED_LIMITS = `
  -- In 1/60000, how much has drained of the tokens in all.
  alter table key_limit add column tokens_drained bigint not null default 0;
  alter table key_limit add column carried_tokens bigint not null default 0;

  -- Of the tokens that were held last, and how much has drained in all when they have; those before are used.
  alter table running_request add column last_tokens bigint not null default 0;
  alter table running_request add column token_end bigint not null default 0;

  alter type limit_standing
    add attribute tokens_drained bigint,
    add attribute carried_tokens bigint,
    -- Of this request, by this call.
    add attribute held_tokens bigint;

  -- A database of an earlier version has these, with other parameters.
  drop function if exists limit_admit, limit_weigh, limit_settle, limit_tokens_fit, limit_keep, limit_look;

  -- What the week before that day leaves for it.
  create function limit_carried(the_key text, daily bigint, today text) returns bigint language plpgsql stable as $$
  declare
    carried bigint := 0;
    used bigint;
  begin
    for used in
      select coalesce(prompt_tokens + completion_tokens, 0)
        from generate_series(today::date - 7, today::date - 1, interval '1 day') as past (midnight)
          left join key_usage on key_id = the_key and day = to_char(midnight, 'YYYY-MM-DD')
        order by midnight
    loop
      carried := greatest(0, carried + used - daily);
    end loop;
    return carried;
  end
  $$;

  -- A clock that was set back gives nothing, and time goes on from there.
  create function limit_turn(held key_limit, daily bigint, today text) returns key_limit language plpgsql as $$
  declare
    written bigint;
    days bigint;
  begin
    if held.day = today then return held; end if;
    if daily is null then
      held.day_tokens := 0;
      held.carried_tokens := 0;
    elsif held.day = '' then
      select prompt_tokens + completion_tokens into written
        from key_usage where key_id = held.key_id and day = today;
      held.day_tokens := coalesce(written, 0);
      held.carried_tokens := limit_carried(held.key_id, daily, today);
    else
      days := today::date - held.day::date;
      if days > 0 then
        select prompt_tokens + completion_tokens into written
          from key_usage where key_id = held.key_id and day = held.day;
        held.carried_tokens :=
          greatest(0, held.carried_tokens + greatest(held.day_tokens, coalesce(written, 0)) - days * daily);
        held.day_tokens := 0;
      end if;
    end if;
    held.day := today;
    return held;
  end
  $$;

  -- Locks the key and tells where it stands at this time. Requests of gateways not seen since alive_ms ago do not count.
  create function limit_look(
    the_key text, per_minute bigint, tokens_per_minute bigint, at_once bigint, daily bigint, alive_ms bigint,
    given_ms bigint
  ) returns limit_standing language plpgsql as $$
  declare
    held key_limit;
    standing limit_standing;
    written bigint;
    level bigint;
  begin
    select * into held from key_limit where key_id = the_key for update;
    if not found then
      insert into key_limit (key_id) values (the_key) on conflict do nothing;
      select * into held from key_limit where key_id = the_key for update;
    end if;
    -- After the lock was had: whoever had it before was here earlier.
    standing.now_ms := coalesce(given_ms, floor(extract(epoch from clock_timestamp()) * 1000)::bigint);
    if per_minute is not null then
      held.requests_used := limit_drained(held.requests_used, standing.now_ms - held.requests_drained_ms, per_minute);
    end if;
    if tokens_per_minute is not null then
      level := limit_drained(held.tokens_used, standing.now_ms - held.tokens_drained_ms, tokens_per_minute);
      held.tokens_drained := held.tokens_drained + held.tokens_used - level;
      held.tokens_used := level;
    end if;
    if daily is not null then
      held := limit_turn(held, daily, limit_day(standing.now_ms));
      select prompt_tokens + completion_tokens into written from key_usage where key_id = the_key and day = held.day;
    end if;
    standing.running := 0;
    standing.reserved_tokens := 0;
    if at_once is not null or daily is not null then
      select count(*), min(started_ms), coalesce(sum(running_request.held_tokens), 0)
        into standing.running, standing.oldest_ms, standing.reserved_tokens
        from running_request join limit_gateway on limit_gateway.id = gateway_id
        where key_id = the_key and seen_ms > standing.now_ms - alive_ms;
    end if;
    standing.requests_used := held.requests_used;
    standing.tokens_used := held.tokens_used;
    standing.tokens_drained := held.tokens_drained;
    -- What was used while this database could not be asked is in the usage alone.
    standing.day_tokens := greatest(held.day_tokens, coalesce(written, 0)) + held.carried_tokens;
    standing.mean_ms := held.mean_ms;
    standing.day := held.day;
    standing.settled_tokens := held.day_tokens;
    standing.carried_tokens := held.carried_tokens;
    return standing;
  end
  $$;

  create function limit_keep(
    the_key text, per_minute bigint, tokens_per_minute bigint, standing limit_standing
  ) returns void language sql as $$
    update key_limit set
        requests_used = standing.requests_used,
        requests_drained_ms = case when per_minute is null then requests_drained_ms else standing.now_ms end,
        tokens_used = standing.tokens_used,
        tokens_drained = standing.tokens_drained,
        tokens_drained_ms = case when tokens_per_minute is null then tokens_drained_ms else standing.now_ms end,
        day = standing.day,
        day_tokens = standing.settled_tokens,
        carried_tokens = standing.carried_tokens
      where key_id = the_key
  $$;

  -- Of the tokens that are expected never more than a day has left, or a minute has at all. A null does not count.
  create function limit_held(
    standing limit_standing, expected_tokens bigint, tokens_per_minute bigint, daily bigint
  ) returns bigint language sql immutable as $$
    select greatest(0, least(expected_tokens, tokens_per_minute, daily - standing.day_tokens))
  $$;

  create function limit_tokens_fit(
    standing limit_standing, least_tokens bigint, expected_tokens bigint, tokens_per_minute bigint, daily bigint
  ) returns boolean language sql immutable as $$
    select expected_tokens = 0 or standing.held_tokens >= least_tokens
      and (tokens_per_minute is null
        or standing.tokens_used + standing.held_tokens * 60000 <= tokens_per_minute * 60000)
      and (daily is null or standing.day_tokens + standing.reserved_tokens + standing.held_tokens <= daily)
  $$;

  -- Without an id the request takes no place: nothing has to be given back when it ends.
  create function limit_admit(
    the_key text, per_minute bigint, tokens_per_minute bigint, at_once bigint, daily bigint, alive_ms bigint,
    given_ms bigint, least_tokens bigint, expected_tokens bigint, request text, gateway text
  ) returns limit_standing language plpgsql as $$
  declare
    standing limit_standing;
  begin
    standing := limit_look(the_key, per_minute, tokens_per_minute, at_once, daily, alive_ms, given_ms);
    standing.held_tokens := limit_held(standing, expected_tokens, tokens_per_minute, daily);
    standing.ok := (per_minute is null or standing.requests_used + 60000 <= per_minute * 60000)
      and (at_once is null or standing.running < at_once)
      and limit_tokens_fit(standing, least_tokens, expected_tokens, tokens_per_minute, daily);
    if standing.ok and per_minute is not null then
      standing.requests_used := standing.requests_used + 60000;
    end if;
    if standing.ok and request is not null then
      insert into running_request values (request, the_key, gateway, standing.now_ms, 0);
      standing.running := standing.running + 1;
    end if;
    perform limit_keep(the_key, per_minute, tokens_per_minute, standing);
    return standing;
  end
  $$;

  -- Holds what the standing says for a request, in addition to what it holds. One whose place is gone, as after a crash,
  -- gets a new one.
  create function limit_hold(
    the_key text, tokens_per_minute bigint, request text, gateway text, standing limit_standing
  ) returns limit_standing language plpgsql as $$
  begin
    standing.reserved_tokens := standing.reserved_tokens + standing.held_tokens;
    if tokens_per_minute is not null then
      standing.tokens_used := standing.tokens_used + standing.held_tokens * 60000;
    end if;
    insert into running_request values (request, the_key, gateway, standing.now_ms, standing.held_tokens,
        standing.held_tokens, standing.tokens_drained + standing.tokens_used)
      on conflict (id) do update set
        held_tokens = running_request.held_tokens + excluded.held_tokens,
        last_tokens = excluded.last_tokens,
        token_end = excluded.token_end;
    return standing;
  end
  $$;

  -- A request that does not fit loses its place.
  create function limit_weigh(
    the_key text, per_minute bigint, tokens_per_minute bigint, at_once bigint, daily bigint, alive_ms bigint,
    given_ms bigint, least_tokens bigint, expected_tokens bigint, request text, gateway text
  ) returns limit_standing language plpgsql as $$
  declare
    standing limit_standing;
  begin
    standing := limit_look(the_key, per_minute, tokens_per_minute, at_once, daily, alive_ms, given_ms);
    standing.held_tokens := limit_held(standing, expected_tokens, tokens_per_minute, daily);
    standing.ok := limit_tokens_fit(standing, least_tokens, expected_tokens, tokens_per_minute, daily);
    if standing.ok then
      standing := limit_hold(the_key, tokens_per_minute, request, gateway, standing);
    else
      delete from running_request where id = request;
      if found then standing.running := greatest(0, standing.running - 1); end if;
    end if;
    perform limit_keep(the_key, per_minute, tokens_per_minute, standing);
    return standing;
  end
  $$;

  -- Holds up to so many more tokens for a request that has used all it held.
  create function limit_grow(
    the_key text, tokens_per_minute bigint, daily bigint, alive_ms bigint, given_ms bigint, more_tokens bigint,
    request text, gateway text
  ) returns limit_standing language plpgsql as $$
  declare
    standing limit_standing;
  begin
    standing := limit_look(the_key, null, tokens_per_minute, null, daily, alive_ms, given_ms);
    standing.ok := true;
    standing.held_tokens := greatest(0, least(more_tokens, (tokens_per_minute * 60000 - standing.tokens_used) / 60000,
      daily - standing.day_tokens - standing.reserved_tokens));
    if standing.held_tokens > 0 then
      standing := limit_hold(the_key, tokens_per_minute, request, gateway, standing);
    end if;
    perform limit_keep(the_key, null, tokens_per_minute, standing);
    return standing;
  end
  $$;

  -- Gives a place back, and of what was held what was neither used nor has drained. A place that is gone was settled
  -- before, or its gateway was taken for dead. A request that was not served teaches nothing of how long they take.
  create function limit_settle(
    the_key text, tokens_per_minute bigint, daily bigint, given_ms bigint, used_tokens bigint, request text,
    served boolean
  ) returns void language plpgsql as $$
  declare
    held key_limit;
    ended running_request;
    the_ms bigint;
    took_ms bigint;
    level bigint;
    given bigint;
  begin
    select * into held from key_limit where key_id = the_key for update;
    delete from running_request where id = request returning * into ended;
    if not found then return; end if;
    the_ms := coalesce(given_ms, floor(extract(epoch from clock_timestamp()) * 1000)::bigint);
    took_ms := greatest(0, the_ms - ended.started_ms);
    held := limit_turn(held, daily, limit_day(the_ms));
    if tokens_per_minute is not null then
      level := limit_drained(held.tokens_used, the_ms - held.tokens_drained_ms, tokens_per_minute);
      held.tokens_drained := held.tokens_drained + held.tokens_used - level;
      held.tokens_drained_ms := the_ms;
      given := least(
        greatest(0, ended.held_tokens - used_tokens) * 60000,
        ended.last_tokens * 60000,
        greatest(0, ended.token_end - held.tokens_drained));
      held.tokens_used := level - given + greatest(0, used_tokens - ended.held_tokens) * 60000;
      -- Those that came after it drain sooner.
      update running_request set token_end = token_end - given
        where given > 0 and key_id = the_key and token_end > ended.token_end;
    end if;
    update key_limit set
        tokens_used = held.tokens_used,
        tokens_drained = held.tokens_drained,
        tokens_drained_ms = held.tokens_drained_ms,
        day = held.day,
        day_tokens = held.day_tokens + used_tokens,
        carried_tokens = held.carried_tokens,
        mean_ms = case when not served then mean_ms
          else coalesce(mean_ms + 0.2 * (took_ms - mean_ms), took_ms) end
      where key_id = the_key;
  end
  $$;
`;
