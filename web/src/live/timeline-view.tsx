// The timeline as a picture one can point at. What it shows is in the list of riders, too, in words.

import { useEffect, useRef, useState } from 'preact/hooks';
import { useValue } from '../observable.ts';
import { hashOf } from '../shell/route.ts';
import { Swatch } from '../shell/swatch.tsx';
import { useSystemDark } from '../shell/system-dark.ts';
import type { ThemeChoice } from '../shell/theme.ts';
import { counted } from '../text/format.ts';
import type { EngineBoard } from './engine-board.ts';
import { readPalette } from './palette.ts';
import type { Ride } from './ride-log.ts';
import { TimelineCanvas } from './timeline-canvas.ts';

export interface TimelineViewProps {
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
  const [pointed, setPointed] = useState<{ seat: number; ride?: Ride }>();
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
  // Colours are those of a theme.
  useEffect(() => {
    if (drawing.current !== undefined) drawing.current.palette = readPalette();
  }, [chosen, dark]);
  // With every tick, and whatever else draws this again.
  useEffect(() => {
    const made = drawing.current;
    const width = element.current?.parentElement?.clientWidth ?? 0;
    if (made === undefined || width === 0) return;
    made.windowMs = windowMs;
    made.marked = pointed?.seat;
    made.draw(width, nowMs);
  });

  const point = ({ offsetX, offsetY }: { offsetX: number; offsetY: number }) => {
    const seat = drawing.current?.seatAt(offsetY);
    const ride = drawing.current?.rideAt(offsetX, offsetY);
    setPointed(seat === undefined ? undefined : { seat, ...(ride && { ride }) });
  };
  const moveTo = (seat: number) => {
    const ride = engine.log.rides.findLast((one) => one.seat === seat);
    setPointed({ seat, ...(ride && { ride }) });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      moveTo(Math.min((drawing.current?.rows ?? 1) - 1, Math.max(0, (pointed?.seat ?? -by) + by)));
    } else if (event.key === 'Enter') open();
    else if (event.key === 'Escape') setPointed(undefined);
  };
  const open = () => {
    if (pointed?.ride !== undefined) location.hash = hashOf({ view: 'requests', id: pointed.ride.requestId });
  };
  const riders = engine.tick?.riders ?? [];
  const filling = riders.filter(({ phase }) => phase === 'prefill').length;
  return (
    <figure class="timeline">
      <figcaption>
        <h3>Rides</h3>
        <ul class="legend">
          <li>
            <Swatch colour="--prompt" /> prompt chunk
          </li>
          <li>
            <Swatch colour="--rider-0" /> decoding, a colour for each seat
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
          aria-label={`Timeline: ${counted(riders.length, 'rider')}, ${filling} with their prompts, ${riders.length - filling} decoding. Arrow keys go from seat to seat, Enter opens the request.`}
          onPointerMove={point}
          onPointerLeave={() => setPointed(undefined)}
          onClick={open}
          onKeyDown={onKeyDown}
        />
      </div>
      <p class="pointed" aria-live="polite">
        {pointed === undefined ? ' ' : `Seat ${pointed.seat}: ${pointed.ride?.requestId ?? 'nobody'}`}
      </p>
    </figure>
  );
}
