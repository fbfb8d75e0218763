// Usage of the keys, day by day.

import { useState } from 'preact/hooks';
import type { Tier } from '../../../src/store/key-record.ts';
import type { UsageRow } from '../../../src/store/usage-report.ts';
import type { Server } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { SeriesPlot } from '../shell/series-plot.tsx';
import type { ThemeChoice } from '../shell/theme.ts';
import { count, counted } from '../text/format.ts';

const DAYS = 30;
const DAY_MS = 86_400_000;
const everybody = '';

interface UsagePanelProps {
  readonly server: Server;
  readonly keys: readonly WireKey[];
  readonly theme: ThemeChoice;
}

export function UsagePanel({ server, keys, theme }: UsagePanelProps) {
  const [keyId, setKeyId] = useState(everybody);
  const days = lastDays();
  const { answer, problem } = usePolled<{ data: readonly UsageRow[] }>(
    server,
    `admin/usage?from=${days[0]}`,
    10_000,
  );
  const rows = (answer?.data ?? []).filter((row) => keyId === everybody || row.keyId === keyId);
  const sums = days.map((day) => sumOf(rows.filter((row) => row.day === day)));
  const total = sumOf(rows);
  // A server that stores no usage says so; that is no problem to show.
  if (problem !== undefined && answer === undefined) return <p class="quiet">{problem}</p>;
  return (
    <section class="panel" aria-labelledby="usage-title">
      <div class="row spread">
        <h2 id="usage-title">Usage of {DAYS} days</h2>
        <label class="inline">
          <span>Of</span>
          <select value={keyId} onChange={(event) => setKeyId(event.currentTarget.value)}>
            <option value={everybody}>all keys</option>
            {keys.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
            <option value="anonymous">without a key</option>
          </select>
        </label>
      </div>
      <p class="quiet">
        {counted(total.requests, 'request')} ({count(total.errors)} failed), {count(total.prompt)} prompt
        tokens, of them {count(total.cached)} cached, {count(total.answer)} answer tokens. Days are those of
        UTC.
      </p>
      <SeriesPlot
        label="Tokens by day"
        theme={theme}
        bars
        times={days.map((day) => Date.parse(day) / 1000)}
        series={[
          { label: 'prompt', colour: '--series-1', values: sums.map(({ prompt }) => prompt) },
          { label: 'answer', colour: '--series-2', values: sums.map(({ answer: tokens }) => tokens) },
        ]}
        unit="tokens"
      />
    </section>
  );
}

/** The newest last. */
function lastDays(): string[] {
  const now = Date.now();
  return Array.from({ length: DAYS }, (_, at) =>
    new Date(now - (DAYS - 1 - at) * DAY_MS).toISOString().slice(0, 10),
  );
}

function sumOf(rows: readonly UsageRow[]) {
  const sum = { requests: 0, errors: 0, prompt: 0, cached: 0, answer: 0 };
  for (const row of rows) {
    sum.requests += row.requests;
    sum.errors += row.errors;
    sum.prompt += row.promptTokens;
    sum.cached += row.cachedTokens;
    sum.answer += row.completionTokens;
  }
  return sum;
}

export interface WireKey {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  readonly tier: Tier;
  readonly admin: boolean;
  readonly requests_per_minute: number | null;
  readonly tokens_per_minute: number | null;
  readonly max_concurrent: number | null;
  readonly daily_tokens: number | null;
  readonly kv_share: number | null;
  readonly created: number;
  readonly revoked: number | null;
}
