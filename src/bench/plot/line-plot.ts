// Lines over a common x axis, as an SVG that stands alone or inside a page.

import { type Axis, axisScale, type Frame, makeFrame, type PlotSize } from './frame.ts';
import { colourIndex } from './plot-style.ts';
import { extentOf } from './scale.ts';
import { element, escapeText, pixel } from './svg.ts';

export type Point = readonly [x: number, y: number];

interface LineSeries {
  readonly name: string;
  /** In the order of x. */
  readonly points: readonly Point[];
}

interface LinePlot extends PlotSize {
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly LineSeries[];
  /** `steps`: a value holds until the next point. Default `line`. */
  readonly shape?: 'line' | 'steps';
  /** A mark at each point, which tells its values when pointed at; by itself where points are few. */
  readonly marks?: boolean;
}

const FEW_POINTS = 24;
const MARK_RADIUS = 4;

/** The y axis starts at zero unless the data or `y.from` lie below, or it is logarithmic. */
export function linePlot(plot: LinePlot): string {
  const { title, series, shape = 'line' } = plot;
  const marks = plot.marks ?? series.every(({ points }) => points.length <= FEW_POINTS);
  const y = plot.y.scale === 'log' || plot.y.from !== undefined ? plot.y : { ...plot.y, from: 0 };
  const points = series.flatMap((one) => one.points);
  const frame = makeFrame({
    ...plot,
    title,
    x: {
      label: plot.x.label,
      columns: { kind: 'scale', scale: axisScale(plot.x, extentOf(points.map(([at]) => at))) },
    },
    y: { label: y.label, scale: axisScale(y, extentOf(points.map(([, value]) => value))) },
    names: series.map(({ name }) => name),
    sample: (n, at, middle) => line(n, `M${at} ${middle}h22`) + (marks ? mark(n, at + 11, middle) : ''),
  });
  return frame.svg(series.map((one, n) => drawSeries(frame, plot, one, n, shape, marks)).join(''));
}

function drawSeries(
  frame: Frame,
  { x, y, series }: LinePlot,
  { name, points }: LineSeries,
  n: number,
  shape: 'line' | 'steps',
  marks: boolean,
): string {
  if (points.length === 0) return '';
  const path = line(n, pathOf(frame, points, shape));
  if (!marks) return path;
  const show = (axis: Axis, value: number) => axis.format?.(value) ?? value.toLocaleString('en-US');
  const prefix = series.length > 1 ? `${name}: ` : '';
  const shown = points.map(([at, value]) =>
    mark(n, frame.x(at), frame.y(value), `${prefix}${show(x, at)}, ${show(y, value)}`),
  );
  return path + shown.join('');
}

function line(series: number, path: string): string {
  return element('path', { class: `line stroke-${colourIndex(series)}`, d: path });
}

function pathOf({ x, y }: Frame, points: readonly Point[], shape: 'line' | 'steps'): string {
  const [first, ...rest] = points as readonly [Point, ...Point[]];
  const next = ([at, value]: Point) =>
    shape === 'steps' ? `H${x(at)}V${y(value)}` : `L${x(at)} ${y(value)}`;
  return `M${x(first[0])} ${y(first[1])}${rest.map(next).join('')}`;
}

/** Series differ in shape as well as in colour. */
function mark(series: number, x: number, y: number, label?: string): string {
  const r = MARK_RADIUS;
  const shapes = [
    `M${pixel(x - r)} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
    `M${pixel(x - r)} ${pixel(y - r)}h${2 * r}v${2 * r}h${-2 * r}z`,
    `M${x} ${pixel(y - r - 1)}l${r + 1} ${r + 1}l${-r - 1} ${r + 1}l${-r - 1} ${-r - 1}z`,
    `M${x} ${pixel(y - r - 1)}l${r + 1} ${2 * r}h${-2 * (r + 1)}z`,
  ];
  const attributes = { class: `fill-${colourIndex(series)}`, d: shapes[series % shapes.length] };
  return label === undefined
    ? element('path', attributes)
    : element('path', attributes, element('title', {}, escapeText(label)));
}
