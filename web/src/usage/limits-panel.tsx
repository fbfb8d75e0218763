// What is left of a key's limits.

import type { RemainingLimit } from '../../../src/server/limits/key-limiter.ts';
import type { UsageReport } from '../../../src/server/page/usage.ts';
import { count, duration, percent } from '../text/format.ts';

const names: Readonly<Record<RemainingLimit['kind'], string>> = {
  requests: 'Requests a minute',
  tokens: 'Tokens a minute',
  daily: 'Tokens a day',
  concurrent: 'Requests at once',
};

export function LimitsPanel({ limits, kvShare }: Pick<UsageReport, 'limits' | 'kvShare'>) {
  return (
    <section class="panel" aria-labelledby="limits-title">
      <h2 id="limits-title">Limits</h2>
      {limits.length === 0 && <p class="quiet">This key has no limits of requests or tokens.</p>}
      <ul class="limits">
        {limits.map((limit) => (
          <LimitRow key={limit.kind} limit={limit} />
        ))}
      </ul>
      {kvShare !== undefined && (
        <p class="quiet">Its sequences may hold {percent(kvShare)} of a model's KV blocks.</p>
      )}
    </section>
  );
}

function LimitRow({ limit: { kind, limit, remaining, resetMs } }: { readonly limit: RemainingLimit }) {
  const name = names[kind];
  const isSpent = remaining === 0;
  return (
    <li data-limit={kind}>
      <span class="limit-name">{name}</span>
      <meter min={0} max={limit} value={remaining} aria-label={`${name}: left`} />
      <span class={isSpent ? 'notice' : undefined}>
        {isSpent ? 'none' : count(remaining)} of {count(limit)} left
        {remaining < limit && resetMs !== undefined && (
          <span class="quiet">
            {kind === 'daily' ? ', the next day begins in ' : ', all of it again in '}
            {duration(resetMs)}
          </span>
        )}
      </span>
    </li>
  );
}
