// The timeline as a picture to point at; the table of running sequences says the same in words.

import { useEffect, useRef, useState } from 'preact/hooks';
import { useValue } from '../observable.ts';
import { Swatch } from '../shell/marks.tsx';
import { hashOf } from '../shell/route.ts';
import { type ThemeChoice, useSystemDark } from '../shell/theme.ts';
import { counted } from '../text/format.ts';
import type { Occupancy } from './lane-log.ts';
import type { EngineBoard } from './lift-board.ts';
import { readPalette } from './palette.ts';
import { TimelineCanvas } from './timeline-canvas.ts';

interface TimelineViewProps {
  readonly engine: EngineBoard;
  readonly nowMs: number;
  readonly theme: ThemeChoice;
}

const windows = [
  [3000, '3 s'],
  [15_000, '15 s'],
  [60_000, '60 s'],
] as const;

export function TimelineView({ engine, nowMs, theme }: TimelineViewProps) {
  const chosen = useValue(theme);
  const dark = useSystemDark();
  const element = useRef<HTMLCanvasElement>(null);
  const drawing = useRef<TimelineCanvas | undefined>(undefined);
  const latestMs = useRef(nowMs);
  latestMs.current = nowMs;
  const [windowMs, setWindowMs] = useState(15_000);
  const [pointed, setPointed] = useState<{ lane: number; occupancy?: Occupancy }>();
  useEffect(() => {
    const canvas = element.current;
    const holder = canvas?.parentElement;
    if (!canvas || !holder) return;
    const made = new TimelineCanvas(canvas, engine.log, readPalette());
    drawing.current = made;
    const observer = new ResizeObserver(() => made.draw(holder.clientWidth, latestMs.current));
    observer.observe(holder);
    return () => observer.disconnect();
  }, [engine]);
  // A canvas does not follow the theme by itself.
  useEffect(() => {
    if (drawing.current !== undefined) drawing.current.palette = readPalette();
  }, [chosen, dark]);
  // After every render, so with every tick.
  useEffect(() => {
    const made = drawing.current;
    const width = element.current?.parentElement?.clientWidth ?? 0;
    if (made === undefined || width === 0) return;
    made.windowMs = windowMs;
    made.marked = pointed?.lane;
    made.draw(width, nowMs);
  });

  const point = ({ offsetX, offsetY }: { offsetX: number; offsetY: number }) => {
    const lane = drawing.current?.laneAt(offsetY);
    const occupancy = drawing.current?.occupancyAt(offsetX, offsetY);
    setPointed(lane === undefined ? undefined : { lane, ...(occupancy && { occupancy }) });
  };
  const moveTo = (lane: number) => {
    const occupancy = engine.log.occupancies.findLast((one) => one.lane === lane);
    setPointed({ lane, ...(occupancy && { occupancy }) });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      moveTo(Math.min((drawing.current?.rows ?? 1) - 1, Math.max(0, (pointed?.lane ?? -by) + by)));
    } else if (event.key === 'Enter') open();
    else if (event.key === 'Escape') setPointed(undefined);
  };
  const open = () => {
    if (pointed?.occupancy !== undefined)
      location.hash = hashOf({ view: 'requests', id: pointed.occupancy.requestId });
  };
  const running = engine.tick?.running ?? [];
  const filling = running.filter(({ phase }) => phase === 'prefill').length;
  return (
    <figure class="timeline">
      <figcaption>
        <h3>Timeline</h3>
        <ul class="legend">
          <li>
            <Swatch colour="--prompt" /> prompt chunk
          </li>
          <li>
            <Swatch colour="--lane-0" /> decoding, a colour for each lane
          </li>
        </ul>
        <fieldset class="segmented">
          <legend class="offscreen">Shown time</legend>
          {windows.map(([ms, words]) => (
            <button
              key={ms}
              type="button"
              class="small"
              aria-pressed={ms === windowMs}
              onClick={() => setWindowMs(ms)}
            >
              {words}
            </button>
          ))}
        </fieldset>
      </figcaption>
      <div class="canvas-holder">
        <canvas
          ref={element}
          tabIndex={0}
          role="img"
          aria-label={`Timeline: ${counted(running.length, 'sequence')}, ${filling} with their prompts, ${running.length - filling} decoding. Arrow keys go from lane to lane, Enter opens the request.`}
          onPointerMove={point}
          onPointerLeave={() => setPointed(undefined)}
          onClick={open}
          onKeyDown={onKeyDown}
        />
      </div>
      <p class="pointed" aria-live="polite">
        {pointed === undefined ? ' ' : `Lane ${pointed.lane}: ${pointed.occupancy?.requestId ?? 'empty'}`}
      </p>
    </figure>
  );
}
