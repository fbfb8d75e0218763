// The block map as a picture with a legend and a description, to point at with a mouse or arrow keys.

import { useEffect, useRef, useState } from 'preact/hooks';
import { CACHED, EMPTY, FIRST_LANE, NO_MEMORY, SHARED } from '../../../src/engine/live/snapshot.ts';
import { useValue } from '../observable.ts';
import { Swatch } from '../shell/marks.tsx';
import { hashOf } from '../shell/route.ts';
import { pixelsOf, type ThemeChoice, useSystemDark } from '../shell/theme.ts';
import { count, counted } from '../text/format.ts';
import { BlockCanvas } from './block-canvas.ts';
import type { EngineBoard } from './lift-board.ts';
import { readPalette } from './palette.ts';

const MOST_HEIGHT_REM = 17;

const legend = [
  ['held', 'by one sequence', '--lane-0'],
  ['shared', 'by several', '--block-shared'],
  ['cached', 'kept for later', '--block-cached'],
  ['empty', '', '--block-empty'],
  ['noMemory', 'no memory yet', '--block-none'],
] as const;

export function BlockMapView({
  engine,
  theme,
}: {
  readonly engine: EngineBoard;
  readonly theme: ThemeChoice;
}) {
  const chosen = useValue(theme);
  const dark = useSystemDark();
  const element = useRef<HTMLCanvasElement>(null);
  const drawing = useRef<BlockCanvas | undefined>(undefined);
  const [pointed, setPointed] = useState<number>();
  const { blocks } = engine;
  useEffect(() => {
    const canvas = element.current;
    const holder = canvas?.parentElement;
    if (!canvas || !holder) return;
    const made = new BlockCanvas(canvas, blocks, readPalette());
    drawing.current = made;
    let length = blocks.length;
    const fit = () => made.fit(holder.clientWidth, pixelsOf(MOST_HEIGHT_REM));
    const observer = new ResizeObserver(fit);
    observer.observe(holder);
    const end = blocks.onChange((changed) => {
      if (blocks.length !== length) {
        length = blocks.length;
        fit();
      } else made.draw(changed);
    });
    return () => {
      observer.disconnect();
      end();
    };
  }, [blocks]);
  // A canvas does not follow the theme by itself.
  useEffect(() => drawing.current?.recolour(readPalette()), [chosen, dark]);
  useEffect(() => drawing.current?.mark(pointed), [pointed]);

  const point = (event: { offsetX: number; offsetY: number }) =>
    setPointed(drawing.current?.blockAt(event.offsetX, event.offsetY));
  const open = (block: number | undefined) => {
    const holder = block === undefined ? undefined : engine.holderOf(block);
    if (holder !== undefined) location.hash = hashOf({ view: 'requests', id: holder.requestId });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const columns = drawing.current?.columns ?? 1;
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      setPointed(Math.min(blocks.length - 1, Math.max(0, (pointed ?? -by) + by)));
    } else if (event.key === 'Enter') open(pointed);
    else if (event.key === 'Escape') setPointed(undefined);
  };
  const counts = blocks.counts();
  return (
    <figure class="block-map">
      <figcaption>
        <h3>Blocks</h3>
        <ul class="legend">
          {legend.map(([name, words, colour]) => (
            <li key={name}>
              <Swatch colour={colour} />
              {name === 'noMemory' ? words : `${name} ${words}`}{' '}
              <b data-count={name}>{count(counts[name])}</b>
            </li>
          ))}
        </ul>
      </figcaption>
      <div class="canvas-holder">
        <canvas
          ref={element}
          tabIndex={0}
          role="img"
          aria-label={`Block map: ${counted(blocks.length, 'block')}, ${count(counts.held)} held by one sequence, ${count(counts.shared)} shared, ${count(counts.cached)} cached, ${count(counts.empty)} empty. Arrow keys go from block to block.`}
          onPointerMove={point}
          onPointerLeave={() => setPointed(undefined)}
          onClick={() => open(pointed)}
          onKeyDown={onKeyDown}
        />
      </div>
      <p class="pointed" aria-live="polite">
        {pointed === undefined || pointed >= blocks.length ? ' ' : wordsFor(engine, pointed)}
      </p>
    </figure>
  );
}

function wordsFor(engine: EngineBoard, block: number): string {
  const state = engine.blocks.stateOf(block);
  const name = `Block ${count(block)}`;
  switch (state) {
    case NO_MEMORY:
      return `${name} holds no memory`;
    case EMPTY:
      return `${name} is empty`;
    case CACHED:
      return `${name} is cached, and not in use`;
    case SHARED:
      return `${name} is shared by several sequences`;
    default: {
      const lane = state - FIRST_LANE;
      const holder = engine.holderOf(block);
      return `${name} is held by the sequence of lane ${lane}${holder === undefined ? '' : `, ${holder.requestId}`}`;
    }
  }
}
