// The figures one looks at first.

import type { LiveTick } from '../../../src/server/live/live-event.ts';
import { bytes, count, duration, rate } from '../text/format.ts';
import type { Series } from './series.ts';

export interface FiguresProps {
  readonly tick: LiveTick;
  /** Undefined where the engines are elsewhere. */
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
    ['Memory', bytes(memory.usedBytes), `of ${bytes(memory.allowedBytes)}`],
  ] as const;
  return (
    <dl class="figures">
      {figures.map(([name, value, about]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <span class="figure-value">{value}</span> <span class="quiet">{about}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}
