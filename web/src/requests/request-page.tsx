// The trace of one request: its events, how much of its prompt was cached, and why the rest was not.

import type { PrefixLookup, RequestTrace, TraceEvent } from '../../../src/server/live/live-event.ts';
import type { Server } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { TierMark } from '../shell/marks.tsx';
import { Problem } from '../shell/problem.tsx';
import { clock, count, counted, duration, percent } from '../text/format.ts';
import { LongText, SafeText } from '../text/safe-text.tsx';
import { upstreamWords } from './ended-table.tsx';

const ASK_EVERY_MS = 1000;

const eventWords: Readonly<Record<TraceEvent['what'], string>> = {
  arrived: 'arrived at the server',
  submitted: 'was submitted to the engine, and waited',
  admitted: 'was admitted: its prompt began to be computed',
  'first-token': 'its first token was sampled',
  preempted: 'was preempted, because others needed its blocks',
  resumed: 'was resumed',
  'engine-died': 'its engine died; another one goes on where it was',
  ended: 'ended',
};

export function RequestPage({ server, id }: { readonly server: Server; readonly id: string }) {
  const { answer: trace, problem } = usePolled<RequestTrace>(
    server,
    `requests/${encodeURIComponent(id)}`,
    ASK_EVERY_MS,
  );
  return (
    <>
      <p class="back">
        <a href="#/requests">All requests</a>
      </p>
      <h1>
        Trace of <SafeText text={id} most={60} />
      </h1>
      <Problem text={problem} />
      {trace && (
        <div class="two-columns">
          <Facts trace={trace} />
          <Events trace={trace} />
          {trace.upstream === undefined && <Lookups trace={trace} />}
          {trace.prompt !== undefined && (
            <section class="panel wide-panel" aria-labelledby="prompt-title">
              <h2 id="prompt-title">Prompt</h2>
              <pre class="prompt">
                <LongText text={trace.prompt} />
              </pre>
            </section>
          )}
        </div>
      )}
    </>
  );
}

function Facts({ trace }: { readonly trace: RequestTrace }) {
  const facts = [
    ['State', trace.running ? 'running' : <SafeText text={trace.outcome} />],
    ['Model', <SafeText key="model" text={trace.model} />],
    ...(trace.upstream === undefined
      ? []
      : [['Upstream', <SafeText key="upstream" text={upstreamWords(trace.upstream)} />] as const]),
    ['Key', <SafeText key="key" text={trace.keyName ?? trace.keyId} />],
    ['Tier', <TierMark key="tier" tier={trace.tier} />],
    ['Arrived', clock(trace.arrivedMs)],
    ['Prompt', counted(trace.promptTokens, 'token')],
    ['Answer', counted(trace.generatedTokens, 'token')],
    ['First token after', trace.firstTokenMs === undefined ? '–' : duration(trace.firstTokenMs)],
    [trace.running ? 'So far' : 'In all', duration(trace.totalMs)],
    ...(trace.endReasons.length === 0 ? [] : [['Ended by', trace.endReasons.join(', ')] as const]),
  ] as const;
  return (
    <section class="panel" aria-labelledby="facts-title">
      <h2 id="facts-title">What it is</h2>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Events({ trace }: { readonly trace: RequestTrace }) {
  const lengthMs = Math.max(1, trace.totalMs, trace.events.at(-1)?.atMs ?? 0);
  return (
    <section class="panel" aria-labelledby="events-title">
      <h2 id="events-title">Events</h2>
      <ol class="trace">
        {trace.events.map(({ atMs, what, choice }, at) => (
          <li key={at} data-what={what}>
            <span class="trace-time">{duration(atMs)}</span>
            <progress class="trace-bar" max={lengthMs} value={atMs} aria-hidden="true" />
            <span>
              {trace.endReasons.length > 1 && choice !== undefined && `choice ${choice + 1} `}
              {trace.upstream !== undefined && what === 'submitted'
                ? 'was sent to the upstream'
                : eventWords[what]}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Lookups({ trace }: { readonly trace: RequestTrace }) {
  return (
    <section class="panel" aria-labelledby="cache-title">
      <h2 id="cache-title">What the cache knew</h2>
      {trace.lookups.length === 0 && <p class="quiet">It has not been looked up yet.</p>}
      {trace.lookups.map((lookup, at) => (
        <div class="lookup" key={at}>
          {trace.lookups.length > 1 && <h3>Choice {lookup.choice + 1}</h3>}
          <meter
            min={0}
            max={Math.max(1, lookup.promptTokens)}
            value={lookup.cachedTokens}
            aria-label="Cached share of the prompt"
          />
          <p>
            {count(lookup.cachedTokens)} of {counted(lookup.promptTokens, 'prompt token')} were cached (
            {percent(lookup.promptTokens === 0 ? 0 : lookup.cachedTokens / lookup.promptTokens)}).
          </p>
          <p>{missWords(lookup)}</p>
        </div>
      ))}
    </section>
  );
}

/** Why not all of a prompt was found in the prefix cache. */
function missWords({ promptTokens, cachedTokens, why, firstDifference, tier }: PrefixLookup): string {
  const rest = promptTokens - cachedTokens;
  if (rest <= 0) return 'Nothing of it had to be computed.';
  const computed = `${counted(rest, 'token')} had to be computed`;
  switch (why) {
    case 'end':
      return `${computed}: less than a block was left, or only the last token, which always is.`;
    case 'new':
      return `${computed}: no request had sent what comes there before.`;
    case 'differs':
      return `${computed}: ${
        firstDifference === undefined
          ? 'something else came there in the nearest prompt that was kept.'
          : `from token ${count(firstDifference)} on it differs from the nearest prompt that was kept.`
      }`;
    case 'evicted':
      return `${computed}: it was kept once, but its blocks were needed for others.`;
    case 'tenant':
      return `${computed}: another key has sent the same, and keys do not share what is cached.`;
    case 'not-loaded':
      return `${computed}: it lay ${tier === 'disk' ? 'on the disk' : 'in the machine’s memory'}, and loading would have taken longer.`;
    case 'not-shared':
      return `${computed}: this kind of request takes nothing from the cache.`;
  }
}
