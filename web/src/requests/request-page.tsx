// The page of one request: its life in events, how much of its prompt was cached, and why the rest was not.

import type { RequestTrace } from '../../../src/server/live/live-event.ts';
import type { Server } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { Problem } from '../shell/problem.tsx';
import { TierMark } from '../shell/tier-mark.tsx';
import { clock, count, counted, duration, percent } from '../text/format.ts';
import { LongText } from '../text/long-text.tsx';
import { SafeText } from '../text/safe-text.tsx';
import { eventWords, missWords } from './life-words.ts';

const ASK_EVERY_MS = 1000;

export function RequestPage({ server, id }: { readonly server: Server; readonly id: string }) {
  const { answer: life, problem } = usePolled<RequestTrace>(
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
        Ride of <SafeText text={id} most={60} />
      </h1>
      <Problem text={problem} />
      {life && (
        <div class="two-columns">
          <Facts life={life} />
          <Events life={life} />
          <Lookups life={life} />
          {life.prompt !== undefined && (
            <section class="panel wide-panel" aria-labelledby="prompt-title">
              <h2 id="prompt-title">Prompt</h2>
              <pre class="prompt">
                <LongText text={life.prompt} />
              </pre>
            </section>
          )}
        </div>
      )}
    </>
  );
}

function Facts({ life }: { readonly life: RequestTrace }) {
  const facts = [
    ['State', life.running ? 'running' : <SafeText text={life.outcome} />],
    ['Model', <SafeText key="model" text={life.model} />],
    ['Key', <SafeText key="key" text={life.keyName ?? life.keyId} />],
    ['Tier', <TierMark key="tier" tier={life.tier} />],
    ['Came', clock(life.arrivedMs)],
    ['Prompt', counted(life.promptTokens, 'token')],
    ['Answer', counted(life.generatedTokens, 'token')],
    ['First token after', life.firstTokenMs === undefined ? '–' : duration(life.firstTokenMs)],
    [life.running ? 'So far' : 'In all', duration(life.totalMs)],
    ...(life.endReasons.length === 0 ? [] : [['Ended by', life.endReasons.join(', ')] as const]),
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

function Events({ life }: { readonly life: RequestTrace }) {
  const lengthMs = Math.max(1, life.totalMs, life.events.at(-1)?.atMs ?? 0);
  return (
    <section class="panel" aria-labelledby="events-title">
      <h2 id="events-title">Its life</h2>
      <ol class="life">
        {life.events.map(({ atMs, what, choice }, at) => (
          <li key={at} data-what={what}>
            <span class="life-time">{duration(atMs)}</span>
            <progress class="life-bar" max={lengthMs} value={atMs} aria-hidden="true" />
            <span>
              {life.endReasons.length > 1 && choice !== undefined && `choice ${choice + 1} `}
              {eventWords(what)}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Lookups({ life }: { readonly life: RequestTrace }) {
  return (
    <section class="panel" aria-labelledby="cache-title">
      <h2 id="cache-title">What the cache knew</h2>
      {life.lookups.length === 0 && <p class="quiet">It has not been looked up yet.</p>}
      {life.lookups.map((lookup, at) => (
        <div class="lookup" key={at}>
          {life.lookups.length > 1 && <h3>Choice {lookup.choice + 1}</h3>}
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
