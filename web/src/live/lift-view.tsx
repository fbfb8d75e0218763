// The lift, live: how fast it runs, which sequences run and wait and why, and what holds the memory.

import { useEffect, useMemo, useState } from 'preact/hooks';
import type { WhoAmI } from '../../../src/server/live/live-event.ts';
import type { Server } from '../access/server.ts';
import { useValue } from '../observable.ts';
import { EndedTable } from '../requests/ended-table.tsx';
import { SeriesPlot } from '../shell/series-plot.tsx';
import type { ThemeChoice } from '../shell/theme.ts';
import { Lazy, useLazy } from '../text/lazy.ts';
import { BeginHere } from './begin-here.tsx';
import { EnginePanel } from './engine-panel.tsx';
import { FeedBar } from './feed-bar.tsx';
import { Figures, MemoryPanel } from './figures.tsx';
import type { EngineBoard, LiftBoard } from './lift-board.ts';
import { LiveFeed } from './live-feed.ts';
import { SERIES_SECONDS } from './series.ts';

/** Of gateways alone. */
const workersPanel = new Lazy(() => import('./workers-panel.tsx'));
const nothing = new Lazy(async () => undefined);

interface LiftViewProps {
  readonly server: Server;
  readonly board: LiftBoard;
  readonly theme: ThemeChoice;
  readonly who: WhoAmI;
}

export function LiftView({ server, board, theme, who: { inFleet, here } }: LiftViewProps) {
  const feed = useMemo(() => new LiveFeed(server, board), [server, board]);
  useEffect(() => {
    // A hidden tab costs the engines nothing.
    const follow = () => (document.hidden ? feed.stop() : feed.start());
    follow();
    document.addEventListener('visibilitychange', follow);
    return () => {
      document.removeEventListener('visibilitychange', follow);
      feed.stop();
    };
  }, [feed]);
  const { tick, engines, ended, notices } = useValue(board);
  const { state } = useValue(feed);
  // Other machines compute: their steps and blocks come with their statuses.
  const workers = useLazy(inFleet ? workersPanel : nothing);
  return (
    <>
      <h1 class="offscreen">Lift</h1>
      <FeedBar feed={feed} notices={notices} />
      {tick && (
        <div class="lift-values" data-stale={state === 'lost'}>
          {board.isIdle && here.clients && <BeginHere server={server} models={tick.models} />}
          <Figures tick={tick} series={inFleet ? undefined : board.series} />
          {!board.isIdle && <Plots board={board} theme={theme} inFleet={inFleet} />}
          {inFleet ? (
            workers && <workers.WorkersPanel server={server} />
          ) : (
            <Engines engines={engines} nowMs={tick.atMs} theme={theme} />
          )}
          <div class="lift-foot">
            <MemoryPanel tick={tick} />
            <section class="panel" aria-labelledby="ended-title">
              <h2 id="ended-title">Ended lately</h2>
              {ended.length === 0 ? (
                <p class="empty">No request since this page was opened.</p>
              ) : (
                <EndedTable requests={ended} />
              )}
            </section>
          </div>
        </div>
      )}
    </>
  );
}

interface EnginesProps extends Pick<LiftViewProps, 'theme'> {
  readonly engines: readonly EngineBoard[];
  readonly nowMs: number;
}

function Engines({ engines, nowMs, theme }: EnginesProps) {
  if (engines.length === 0) {
    return <p class="empty panel">No model is loaded: the first request, or the Models view, loads one.</p>;
  }
  return (
    <>
      {engines.map((engine) => (
        <EnginePanel key={engine.model} engine={engine} nowMs={nowMs} theme={theme} />
      ))}
    </>
  );
}

const windows = [
  [SERIES_SECONDS, '2 min'],
  [900, '15 min'],
  [3600, '1 h'],
] as const;

interface PlotsProps extends Pick<LiftViewProps, 'board' | 'theme'> {
  readonly inFleet: boolean;
}

function Plots({ board, theme, inFleet }: PlotsProps) {
  const [windowSeconds, setWindow] = useState<number>(SERIES_SECONDS);
  const isLong = windowSeconds > SERIES_SECONDS;
  const series = isLong ? board.hour : board.series;
  const { batchPrompt, batchDecode } = board.series;
  const common = { times: series.times, theme, windowSeconds };
  const percentiles = ({ p50, p95, p99 }: typeof series.firstToken) => [
    { label: 'p50', colour: '--series-1', values: p50 },
    { label: 'p95', colour: '--series-2', values: p95 },
    { label: 'p99', colour: '--series-3', values: p99 },
  ];
  return (
    <section aria-label="Charts">
      <div class="row plot-windows">
        {windows.map(([seconds, name]) => (
          <button
            key={seconds}
            type="button"
            class="small"
            aria-pressed={seconds === windowSeconds}
            onClick={() => setWindow(seconds)}
          >
            {name}
          </button>
        ))}
      </div>
      <div class="plots">
        {!inFleet && (
          <>
            <SeriesPlot
              {...common}
              label="Tokens/s"
              unit=""
              series={[
                { label: 'prompt', colour: '--prompt', values: series.promptRate, filled: true },
                { label: 'decoded', colour: '--series-1', values: series.decodeRate, filled: true },
              ]}
            />
            {!isLong && (
              <SeriesPlot
                {...common}
                label="Tokens in a step"
                unit=""
                series={[
                  { label: 'prompt', colour: '--prompt', values: batchPrompt, filled: true },
                  { label: 'decoding', colour: '--series-1', values: batchDecode, filled: true },
                ]}
              />
            )}
          </>
        )}
        <SeriesPlot {...common} label="First token" unit="ms" series={percentiles(series.firstToken)} />
        <SeriesPlot {...common} label="Between tokens" unit="ms" series={percentiles(series.betweenTokens)} />
      </div>
    </section>
  );
}
