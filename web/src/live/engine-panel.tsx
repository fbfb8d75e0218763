// One model's engine: its blocks, its steps, and its running and waiting sequences.

import type { RunningSequence, TierFigures } from '../../../src/engine/live/snapshot.ts';
import { Swatch, TierMark } from '../shell/marks.tsx';
import { hashOf } from '../shell/route.ts';
import { Headings, ScrollBox } from '../shell/table.tsx';
import type { ThemeChoice } from '../shell/theme.ts';
import { count, counted, duration, percent, shortId } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import { BlockMapView } from './block-map-view.tsx';
import type { EngineBoard } from './lift-board.ts';
import { LANE_COLOURS } from './palette.ts';
import { Queues } from './queues.tsx';
import { TimelineView } from './timeline-view.tsx';

interface EnginePanelProps {
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
            {tick.tiers && <Tiers tiers={tick.tiers} />}
          </p>
        )}
      </header>
      <div class="engine-grid">
        <BlockMapView engine={engine} theme={theme} />
        <TimelineView engine={engine} nowMs={nowMs} theme={theme} />
        {tick && <RunningTable running={tick.running} />}
        {tick && (
          <Queues
            queues={tick.queues}
            waiting={tick.waiting}
            freeBlocks={Math.max(0, tick.blockCounts.limit - tick.blockCounts.used)}
            running={tick.running.length}
          />
        )}
      </div>
    </section>
  );
}

/** What is kept of blocks that left the engine's memory. */
function Tiers({ tiers: { host, disk, loaded, missed } }: { readonly tiers: TierFigures }) {
  const wanted = loaded + missed;
  return (
    <span class="tiers">
      {host && ` · ${gigabytes(host.bytes)} of KV in the machine’s memory`}
      {disk && ` · ${gigabytes(disk.bytes)} on disk`}
      {` · ${counted(loaded, 'block')} loaded`}
      {missed > 0 && ` (${percent(loaded / wanted)} of those wanted)`}
    </span>
  );
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(bytes < 1e10 ? 2 : 0)} GB`;
}

function RunningTable({ running }: { readonly running: readonly RunningSequence[] }) {
  return (
    <div class="running">
      <h3>Running sequences</h3>
      {running.length === 0 ? (
        <p class="empty">No sequence is running.</p>
      ) : (
        <ScrollBox name="Running sequences" cut>
          <table class="data">
            <Headings
              columns={[
                'Lane',
                'Request',
                'Tier',
                'Phase',
                { number: 'Prompt' },
                { number: 'Cached' },
                { number: 'Tokens' },
                { number: 'Blocks' },
                { number: 'Age' },
              ]}
            />
            <tbody>
              {[...running]
                .sort((a, b) => a.lane - b.lane)
                .map((sequence) => (
                  <tr key={sequence.lane}>
                    <td class="nowrap">
                      <Swatch colour={`--lane-${sequence.lane % LANE_COLOURS}`} /> {sequence.lane}
                    </td>
                    <td>
                      <a href={hashOf({ view: 'requests', id: sequence.requestId })}>
                        <SafeText text={shortId(sequence.requestId)} />
                      </a>
                    </td>
                    <td>
                      <TierMark tier={sequence.tier} />
                    </td>
                    <td class="nowrap">{sequence.phase === 'prefill' ? 'prefill' : 'decode'}</td>
                    <td class="number">{count(sequence.promptTokens)}</td>
                    <td class="number">{count(sequence.cachedTokens)}</td>
                    <td class="number">{count(sequence.tokens)}</td>
                    <td class="number">{count(sequence.blocks)}</td>
                    <td class="number nowrap">{duration(sequence.ageMs)}</td>
                  </tr>
                ))}
            </tbody>
          </table>
        </ScrollBox>
      )}
    </div>
  );
}
