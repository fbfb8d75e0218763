// Plots as SVG that stands alone or inside a page: lines, points and bars.

import {
  type Axis,
  axisScale,
  colourIndex,
  element,
  escapeText,
  type Frame,
  makeFrame,
  type PlotSize,
  pixel,
} from './frame.ts';
import { extentOf } from './scale.ts';

export type Point = readonly [x: number, y: number];

interface LineSeries {
  readonly name: string;
  readonly points: readonly Point[];
}

interface LinePlot extends PlotSize {
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly LineSeries[];
  /** `steps`: a value holds until the next point. Default `line`. */
  readonly shape?: 'line' | 'steps';
  /** Marks show their values on hover. Default: where points are few. */
  readonly marks?: boolean;
}

const FEW_POINTS = 24;
const MARK_RADIUS = 4;

/** A frame with two axes. The y axis starts at zero unless the data or `y.from` lie below, or it is logarithmic. */
function axesFrame(
  plot: PlotSize & { readonly title: string; readonly x: Axis; readonly y: Axis },
  series: readonly { readonly name: string; readonly points: readonly Point[] }[],
  sample: (n: number, at: number, middle: number) => string,
): Frame {
  const y = plot.y.scale === 'log' || plot.y.from !== undefined ? plot.y : { ...plot.y, from: 0 };
  const points = series.flatMap((one) => one.points);
  const columns = axisScale(plot.x, extentOf(points.map(([at]) => at)));
  return makeFrame({
    ...plot,
    x: { label: plot.x.label, columns: { kind: 'scale', scale: columns } },
    y: { label: y.label, scale: axisScale(y, extentOf(points.map(([, value]) => value))) },
    names: series.map(({ name }) => name),
    sample,
  });
}

export function linePlot(plot: LinePlot): string {
  const { series, shape = 'line' } = plot;
  const marks = plot.marks ?? series.every(({ points }) => points.length <= FEW_POINTS);
  const frame = axesFrame(
    plot,
    series,
    (n, at, middle) => line(n, `M${at} ${middle}h22`) + (marks ? mark(n, at + 11, middle) : ''),
  );
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

export interface ScatterSeries {
  readonly name: string;
  readonly points: readonly Point[];
  readonly mark?: 'dot' | 'cross';
}

interface ScatterPlot extends PlotSize {
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly ScatterSeries[];
}

export function scatterPlot(plot: ScatterPlot): string {
  const { series } = plot;
  const frame = axesFrame(plot, series, (n, at, middle) =>
    drawMarks(n, series[n]?.mark, [[at + 11, middle]]),
  );
  const drawn = series.map(({ points, mark }, n) =>
    drawMarks(
      n,
      mark,
      points.map(([at, value]) => [frame.x(at), frame.y(value)]),
    ),
  );
  return frame.svg(drawn.join(''));
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

interface BarSeries {
  readonly name: string;
  readonly values: readonly (number | undefined)[];
}

interface BarPlot extends PlotSize {
  readonly title: string;
  readonly x: { readonly label: string };
  readonly y: Pick<Axis, 'label' | 'to' | 'format'>;
  readonly groups: readonly string[];
  readonly series: readonly BarSeries[];
}

const GROUP_SHARE = 0.72;
const WIDEST_BAR = 72;

export function barPlot(plot: BarPlot): string {
  const { series, groups } = plot;
  const values = series.flatMap((one) => one.values.filter((value) => value !== undefined));
  const frame = makeFrame({
    ...plot,
    x: { label: plot.x.label, columns: { kind: 'names', names: groups } },
    y: { label: plot.y.label, scale: axisScale({ ...plot.y, from: 0 }, extentOf(values)) },
    names: series.map(({ name }) => name),
    sample: (n, x, y) =>
      element('rect', { class: `fill-${colourIndex(n)}`, x: x + 8, y: y - 6, width: 14, height: 12, rx: 2 }),
  });
  const room = ((frame.area.right - frame.area.left) / groups.length) * GROUP_SHARE;
  const width = Math.min(WIDEST_BAR, room / series.length);
  const show = plot.y.format ?? shorten;
  const bar = (n: number, group: number, value: number) => {
    const x = frame.x(group) + (n - series.length / 2) * width;
    const top = frame.y(value);
    const label = escapeText(`${series[n]?.name}, ${groups[group]}: ${show(value)}`);
    const box = { x: pixel(x + 1), y: top, width: pixel(width - 2), height: pixel(frame.area.bottom - top) };
    const middle = { class: 'value', x: pixel(x + width / 2), y: pixel(top - 5), 'text-anchor': 'middle' };
    return (
      element('rect', { class: `fill-${colourIndex(n)}`, ...box, rx: 2 }, element('title', {}, label)) +
      (width > 34 ? element('text', middle, escapeText(show(value))) : '')
    );
  };
  return frame.svg(
    series
      .flatMap((one, n) =>
        one.values.map((value, group) => (value === undefined ? '' : bar(n, group, value))),
      )
      .join(''),
  );
}

/** Three digits, or whole numbers. */
function shorten(value: number): string {
  const digits = Math.abs(value) >= 100 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 };
  return value.toLocaleString('en-US', digits);
}
