// One model's engine: its blocks, its steps, and its running and waiting sequences.

import type { ThemeChoice } from '../shell/theme.ts';
import { count, counted } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import { BlockMapView } from './block-map-view.tsx';
import type { EngineBoard } from './lift-board.ts';
import { Queues } from './queues.tsx';
import { RunningTable } from './running-table.tsx';
import { TimelineView } from './timeline-view.tsx';

export interface EnginePanelProps {
  readonly engine: EngineBoard;
  readonly nowMs: number;
  readonly theme: ThemeChoice;
}

export function EnginePanel({ engine, nowMs, theme }: EnginePanelProps) {
  const { tick, model } = engine;
  return (
    <section class="panel engine" aria-label={`Engine of ${model}`}>
      <header class="engine-head">
        <h2>
          <SafeText text={model} most={80} />
        </h2>
        {tick && (
          <p class="quiet">
            {counted(tick.preemptions, 'preemption')} · {counted(tick.evictions, 'eviction')} ·{' '}
            {count(tick.blockCounts.used)} of {counted(tick.blockCounts.limit, 'block')} used
            {tick.starts > 1 && ` · started ${count(tick.starts)} times`}
          </p>
        )}
      </header>
      <div class="engine-grid">
        <BlockMapView engine={engine} theme={theme} />
        <TimelineView engine={engine} nowMs={nowMs} theme={theme} />
        {tick && <RunningTable running={tick.running} />}
        {tick && <Queues queues={tick.queues} waiting={tick.waiting} />}
      </div>
    </section>
  );
}
