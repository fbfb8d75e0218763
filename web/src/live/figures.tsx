// The server's figures: rates, counts, latencies, and the memory of each model.

import type { LiveTick } from '../../../src/server/live/live-event.ts';
import { formatBytes } from '../../../src/text/byte-size.ts';
import { FigureList } from '../shell/figure-list.tsx';
import { count, duration, rate } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import type { Series } from './series.ts';

interface FiguresProps {
  readonly tick: LiveTick;
  /** Undefined where other machines compute. */
  readonly series: Series | undefined;
}

export function Figures({ tick, series }: FiguresProps) {
  const { requests, firstToken, betweenTokens, memory } = tick;
  const sum = (of: (engine: (typeof tick.engines)[number]) => number) =>
    tick.engines.reduce((all, engine) => all + of(engine), 0);
  const last = (values: readonly (number | null)[]) => values.at(-1) ?? 0;
  const ofEngines =
    series === undefined
      ? ([
          ['Requests', count(requests.running), 'running'],
          ['Waiting', count(requests.queued), 'queued'],
        ] as const)
      : ([
          ['Tokens/s', rate(last(series.decodeRate)), 'decoded'],
          ['Prompt tokens/s', rate(last(series.promptRate)), 'computed'],
          ['Steps/s', rate(last(series.stepRate)), ''],
          ['Running', count(sum(({ running }) => running.length)), `${count(requests.running)} requests`],
          ['Waiting', count(sum(({ waiting }) => waiting.length)), `${count(requests.queued)} queued`],
        ] as const);
  const figures = [
    ...ofEngines,
    ['First token', firstToken ? duration(firstToken.p50) : '–', 'median'],
    ['Between tokens', betweenTokens ? duration(betweenTokens.p50) : '–', 'median'],
    ['Memory', formatBytes(memory.usedBytes), `of ${formatBytes(memory.allowedBytes)}`],
  ] as const;
  return <FigureList figures={figures} />;
}

export function MemoryPanel({ tick }: { readonly tick: LiveTick }) {
  const { usedBytes, allowedBytes } = tick.memory;
  const inMemory = tick.models.filter(
    ({ memoryBytes, adapterOf }) => memoryBytes !== undefined && adapterOf === undefined,
  );
  return (
    <section class="panel" aria-labelledby="memory-title">
      <h2 id="memory-title">Memory by model</h2>
      <ul class="memory">
        {inMemory.map(({ name, memoryBytes = 0, state }) => (
          <li key={name}>
            <span>
              <SafeText text={name} most={60} />
            </span>
            <meter
              min={0}
              max={Math.max(1, allowedBytes)}
              value={memoryBytes}
              aria-label={`Memory of ${name}`}
            />
            <span class="number">
              {formatBytes(memoryBytes)}
              {state !== 'loaded' && ` (${state})`}
            </span>
          </li>
        ))}
      </ul>
      <p class="quiet">
        {formatBytes(usedBytes)} of {formatBytes(allowedBytes)} in all
      </p>
    </section>
  );
}
