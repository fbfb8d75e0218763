// Points without lines. Each series is a single path, so thousands of points stay small.

import { type Axis, axisScale, makeFrame, type PlotSize } from './frame.ts';
import type { Point } from './line-plot.ts';
import { colourIndex } from './plot-style.ts';
import { extentOf } from './scale.ts';
import { element, pixel } from './svg.ts';

export interface ScatterSeries {
  readonly name: string;
  readonly points: readonly Point[];
  /** Default dots. */
  readonly mark?: 'dot' | 'cross';
}

interface ScatterPlot extends PlotSize {
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly ScatterSeries[];
}

/** The y axis starts at zero unless the data or `y.from` lie below, or it is logarithmic. */
export function scatterPlot(plot: ScatterPlot): string {
  const { series } = plot;
  const y = plot.y.scale === 'log' || plot.y.from !== undefined ? plot.y : { ...plot.y, from: 0 };
  const points = series.flatMap((one) => one.points);
  const frame = makeFrame({
    ...plot,
    x: {
      label: plot.x.label,
      columns: { kind: 'scale', scale: axisScale(plot.x, extentOf(points.map(([at]) => at))) },
    },
    y: { label: y.label, scale: axisScale(y, extentOf(points.map(([, value]) => value))) },
    names: series.map(({ name }) => name),
    sample: (n, at, middle) => drawMarks(n, series[n]?.mark, [[at + 11, middle]]),
  });
  return frame.svg(
    series
      .map(({ points: own, mark }, n) =>
        drawMarks(
          n,
          mark,
          own.map(([at, value]) => [frame.x(at), frame.y(value)]),
        ),
      )
      .join(''),
  );
}

function drawMarks(series: number, mark: 'dot' | 'cross' = 'dot', points: readonly Point[]): string {
  if (points.length === 0) return '';
  const isDot = mark === 'dot';
  const path = points.map(([x, y]) =>
    isDot ? `M${x} ${y}h0` : `M${pixel(x - 3)} ${pixel(y - 3)}l6 6m0-6l-6 6`,
  );
  const className = `${isDot ? 'dots' : 'crosses'} stroke-${colourIndex(series)}`;
  return element('path', { class: className, d: path.join('') });
}
