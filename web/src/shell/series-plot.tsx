// Lines, or bars, over time; the last values also stand in the caption, as text.

import { useEffect, useRef } from 'preact/hooks';
import UPlot from 'uplot';
import { useValue } from '../observable.ts';
import { clock, rate } from '../text/format.ts';
import { Swatch } from './marks.tsx';
import { colourOf, cssColour, pixelsOf, type ThemeChoice, useSystemDark } from './theme.ts';

interface PlotSeries {
  readonly label: string;
  readonly colour: string;
  readonly values: readonly (number | null)[];
  readonly filled?: boolean;
}

interface SeriesPlotProps {
  readonly label: string;
  /** Seconds since 1970. */
  readonly times: readonly number[];
  readonly series: readonly PlotSeries[];
  readonly unit: string;
  readonly theme: ThemeChoice;
  readonly bars?: boolean;
  /** Seconds up to the newest; all where it is absent. */
  readonly windowSeconds?: number;
}

const HEIGHT_REM = 10;
const DAY_SECONDS = 86_400;
const RIGHT_PIXELS = 8;
/** Half of the longest label under the plot. */
const HALF_LABEL_REM = 1.8;

export function SeriesPlot(props: SeriesPlotProps) {
  const { label, series, unit, theme, bars } = props;
  const chosen = useValue(theme);
  const dark = useSystemDark();
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | undefined>(undefined);
  const latest = useRef(props);
  latest.current = props;
  // A canvas does not follow the theme by itself.
  useEffect(() => {
    const element = holder.current;
    if (element === null) return;
    const made = new UPlot(
      optionsOf(latest.current, () => latest.current.windowSeconds, element.clientWidth),
      dataOf(latest.current),
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: pixelsOf(HEIGHT_REM) }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [chosen, dark]);
  useEffect(() => plot.current?.setData(dataOf(latest.current)));
  return (
    <figure class="plot">
      <figcaption>
        <span class="plot-label">{label}</span>
        {series.map((one) => (
          <span key={one.label} class="plot-key">
            <Swatch colour={one.colour} />
            {one.label} {!bars && <b>{lastOf(one, unit)}</b>}
          </span>
        ))}
      </figcaption>
      <div ref={holder} class="plot-canvas" aria-hidden="true" />
    </figure>
  );
}

function lastOf({ values }: PlotSeries, unit: string): string {
  const value = values.at(-1);
  return value === null || value === undefined ? '–' : unit === 'ms' ? `${rate(value)} ms` : rate(value);
}

/** A label near the right end would be cut. */
function hasRoom(plot: UPlot, mark: number): boolean {
  const right = plot.bbox.width / devicePixelRatio - plot.valToPos(mark, 'x') + RIGHT_PIXELS;
  return right >= pixelsOf(HALF_LABEL_REM);
}

function dataOf({ times, series }: SeriesPlotProps): UPlot.AlignedData {
  return [times as number[], ...series.map(({ values }) => values as (number | null)[])];
}

function optionsOf(
  { series, bars }: SeriesPlotProps,
  windowSeconds: () => number | undefined,
  width: number,
): UPlot.Options {
  const ink = cssColour(colourOf('--ink-soft'));
  const grid = { stroke: cssColour(colourOf('--line')), width: 1 };
  const axis = {
    stroke: ink,
    grid,
    ticks: { show: false },
    font: `${pixelsOf(0.76)}px system-ui, sans-serif`,
  };
  return {
    width,
    height: pixelsOf(HEIGHT_REM),
    legend: { show: false },
    cursor: { show: false },
    padding: [6, RIGHT_PIXELS, 0, 0],
    scales: {
      x: {
        time: true,
        range: (_: UPlot, min: number, max: number): UPlot.Range.MinMax => {
          if (bars) return [min - DAY_SECONDS / 2, max + DAY_SECONDS / 2];
          return [max - (windowSeconds() ?? max - min), max];
        },
      },
      y: { range: (_: UPlot, __: number | null, max: number | null) => [0, Math.max(1, (max ?? 0) * 1.1)] },
    },
    axes: [
      {
        ...axis,
        size: pixelsOf(1.7),
        space: pixelsOf(5),
        values: (plot: UPlot, marks: number[]) =>
          marks.map((mark) => (hasRoom(plot, mark) ? (bars ? dayOf : clockOf)(mark) : '')),
      },
      {
        ...axis,
        size: pixelsOf(3.2),
        space: pixelsOf(2),
        values: (_: UPlot, marks: number[]) => marks.map(shortNumber),
      },
    ],
    series: [
      {},
      ...series.map(({ colour, filled }, at) => {
        const rgb = colourOf(colour);
        return {
          stroke: cssColour(rgb),
          width: bars ? 0 : 1.5,
          points: { show: false },
          ...(filled || bars ? { fill: cssColour(rgb, bars ? 0.9 : 0.18) } : {}),
          ...(bars && UPlot.paths.bars
            ? { paths: UPlot.paths.bars({ size: [0.36], align: at === 0 ? -1 : 1 }) }
            : {}),
        };
      }),
    ],
  };
}

function clockOf(seconds: number): string {
  return clock(1000 * seconds);
}

function dayOf(seconds: number): string {
  return new Date(1000 * seconds).toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
}

function shortNumber(value: number): string {
  if (value >= 1_000_000) return `${value / 1_000_000}M`;
  return value >= 1000 ? `${value / 1000}k` : String(value);
}
