// The parts every plot has around its data: paper, title, legend, axes, grid and labels, as SVG text. A plot paints its own
// paper and names its colours outright, so that it reads anywhere, also without CSS variables.

import { type Extent, linearScale, logScale, type Scale, scaleWithTicks } from './scale.ts';

type Attributes = Readonly<Record<string, string | number | undefined>>;

/** Children are markup: escape plain text. Undefined attributes are left out. */
export function element(name: string, attributes: Attributes, ...children: readonly string[]): string {
  const given = Object.entries(attributes).filter(([, value]) => value !== undefined);
  const head = [name, ...given.map(([key, value]) => `${key}="${escapeText(String(value))}"`)].join(' ');
  return children.length === 0 ? `<${head}/>` : `<${head}>${children.join('')}</${name}>`;
}

const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

export function escapeText(text: string): string {
  return text.replace(/[&<>"]/g, (character) => escapes[character] ?? character);
}

/** A tenth of a pixel is finer than any screen shows. */
export function pixel(value: number): number {
  return Math.round(value * 10) / 10;
}

const CHARACTER_SHARE = 0.58;

/** A generous estimate, since nothing measures text here. */
function textWidth(text: string, fontSize: number): number {
  return text.length * fontSize * CHARACTER_SHARE;
}

export interface Palette {
  readonly paper: string;
  readonly ink: string;
  readonly muted: string;
  readonly grid: string;
  /** In order of the series; lightness differs, too. */
  readonly series: readonly string[];
}

export const light: Palette = {
  paper: '#ffffff',
  ink: '#1b1f24',
  muted: '#57606a',
  grid: '#e1e5ea',
  series: ['#0a5cc2', '#c2410c', '#15803d', '#7e22ce', '#b3185f', '#0f6b75', '#854d0e', '#4b5563'],
};

export const dark: Palette = {
  paper: '#12161c',
  ink: '#f0f3f6',
  muted: '#9ea7b3',
  grid: '#2b323b',
  series: ['#6cb6ff', '#ffa657', '#56d364', '#d2a8ff', '#ff85b8', '#4fd1d9', '#e3b341', '#b6c0cc'],
};

const TICK_SIZE = 12;
const TITLE_SIZE = 15;

const plotStyle = [
  `.plot text{font:${TICK_SIZE}px system-ui,-apple-system,"Segoe UI",sans-serif;font-variant-numeric:tabular-nums}`,
  `.plot .title{font-size:${TITLE_SIZE}px;font-weight:600}`,
  '.plot .line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}',
  '.plot .dots{fill:none;stroke-width:5;stroke-linecap:round;stroke-opacity:.65}',
  '.plot .crosses{fill:none;stroke-width:1.6;stroke-linecap:round}',
  '.plot .grid,.plot .axis{stroke-width:1;shape-rendering:crispEdges}',
  coloursOf(light),
  `@media (prefers-color-scheme:dark){${coloursOf(dark)}}`,
].join('');

function coloursOf({ paper, ink, muted, grid, series }: Palette): string {
  return [
    `.plot .paper{fill:${paper}}`,
    `.plot text{fill:${muted}}`,
    `.plot .title,.plot .legend,.plot .value{fill:${ink}}`,
    `.plot .grid{stroke:${grid}}`,
    `.plot .axis{stroke:${muted}}`,
    ...series.map((colour, n) => `.plot .stroke-${n}{stroke:${colour}}.plot .fill-${n}{fill:${colour}}`),
  ].join('');
}

export function colourIndex(series: number): number {
  return series % light.series.length;
}

export interface Axis {
  /** What it measures, with its unit: `time to first token (ms)`. */
  readonly label: string;
  readonly scale?: 'linear' | 'log';
  /** The axis spans the data and these. */
  readonly from?: number;
  readonly to?: number;
  readonly ticks?: readonly number[];
  readonly format?: (value: number) => string;
}

export interface PlotSize {
  readonly width?: number;
  readonly height?: number;
}

interface Area {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

interface FrameOptions extends PlotSize {
  readonly title: string;
  readonly x: { readonly label: string; readonly columns: Columns };
  readonly y: { readonly label: string; readonly scale: (tickCount: number) => Scale };
  /** A single series needs no legend. */
  readonly names: readonly string[];
  /** `x` is its left end, `y` its middle. */
  readonly sample: (series: number, x: number, y: number) => string;
}

/** The x axis has a scale, or one name for each column. */
type Columns =
  | { readonly kind: 'scale'; readonly scale: (tickCount: number) => Scale }
  | { readonly kind: 'names'; readonly names: readonly string[] };

export interface Frame {
  readonly area: Area;
  x(value: number): number;
  y(value: number): number;
  svg(data: string): string;
}

const DEFAULT_WIDTH = 720;
const DEFAULT_HEIGHT = 400;
const MARGIN = 16;
const LEGEND_ROW = 20;
const SAMPLE_WIDTH = 22;
const LEGEND_GAP = 18;

export function axisScale(axis: Axis, data: Extent | undefined): (tickCount: number) => Scale {
  const from = Math.min(axis.from ?? Number.POSITIVE_INFINITY, data?.from ?? Number.POSITIVE_INFINITY);
  const to = Math.max(axis.to ?? Number.NEGATIVE_INFINITY, data?.to ?? Number.NEGATIVE_INFINITY);
  const kind = axis.scale ?? 'linear';
  const extent = {
    from: Number.isFinite(from) ? from : kind === 'log' ? 1 : 0,
    to: Number.isFinite(to) ? to : 1,
  };
  return (tickCount) => {
    const scale =
      axis.ticks !== undefined
        ? scaleWithTicks(extent, axis.ticks, kind)
        : kind === 'log'
          ? logScale(extent, tickCount)
          : linearScale(extent, tickCount);
    return axis.format === undefined ? scale : { ...scale, format: axis.format };
  };
}

export function makeFrame(options: FrameOptions): Frame {
  const { title, width = DEFAULT_WIDTH, height = DEFAULT_HEIGHT } = options;
  const legend = layOutLegend(options, width);
  const top = MARGIN + TITLE_SIZE + 14 + legend.rows * LEGEND_ROW;
  const bottom = height - MARGIN - 2 * TICK_SIZE - 14;
  const y = options.y.scale(Math.max(2, Math.floor((bottom - top) / 40)));
  const widest = Math.max(...y.ticks.map((tick) => textWidth(y.format(tick), TICK_SIZE)));
  const area: Area = { left: MARGIN + TICK_SIZE + 12 + widest + 8, top, right: width - MARGIN - 12, bottom };
  const columns = placeColumns(options.x.columns, area);
  const toY = (value: number) => pixel(bottom - y.at(value) * (bottom - top));
  const parts = [
    element('style', {}, plotStyle),
    element('rect', { class: 'paper', width, height, rx: 8 }),
    text('title', MARGIN, MARGIN + TITLE_SIZE - 2, title),
    legend.markup,
    ...y.ticks.map((tick) => yTick(area, toY(tick), y.format(tick))),
    ...columns.ticks.map(({ at, label, isTick }) => xTick(area, at, label, isTick)),
    element('path', { class: 'axis', fill: 'none', d: `M${area.left} ${bottom}H${area.right}` }),
    ...axisLabels(options, area, height),
  ];
  return {
    area,
    x: columns.at,
    y: toY,
    svg: (data) =>
      element(
        'svg',
        {
          xmlns: 'http://www.w3.org/2000/svg',
          class: 'plot',
          viewBox: `0 0 ${width} ${height}`,
          width,
          height,
          role: 'img',
          'aria-label': title,
        },
        ...parts,
        data,
      ),
  };
}

function text(className: string, x: number, y: number, content: string, anchor?: string): string {
  const at = { class: className || undefined, x: pixel(x), y: pixel(y), 'text-anchor': anchor };
  return element('text', at, escapeText(content));
}

function layOutLegend(
  { names, sample }: FrameOptions,
  width: number,
): { readonly rows: number; readonly markup: string } {
  if (names.length < 2) return { rows: 0, markup: '' };
  let x = MARGIN;
  let row = 0;
  const parts = names.map((name, series) => {
    const entryWidth = SAMPLE_WIDTH + 6 + textWidth(name, TICK_SIZE);
    if (x > MARGIN && x + entryWidth > width - MARGIN) {
      x = MARGIN;
      row++;
    }
    const y = MARGIN + TITLE_SIZE + 14 + row * LEGEND_ROW;
    const markup = sample(series, x, y) + text('legend', x + SAMPLE_WIDTH + 6, y + 4, name);
    x += entryWidth + LEGEND_GAP;
    return markup;
  });
  return { rows: row + 1, markup: parts.join('') };
}

interface PlacedColumns {
  readonly ticks: readonly { readonly at: number; readonly label: string; readonly isTick: boolean }[];
  at(value: number): number;
}

/** The n-th named column spans one share of the axis; its middle is at n. */
function placeColumns(columns: Columns, { left, right }: Area): PlacedColumns {
  if (columns.kind === 'names') {
    const { names } = columns;
    const at = (n: number) => pixel(left + ((n + 0.5) / names.length) * (right - left));
    return { at, ticks: names.map((label, n) => ({ at: at(n), label, isTick: false })) };
  }
  let count = Math.max(2, Math.floor((right - left) / 70));
  let scale = columns.scale(count);
  while (count > 2 && labelsWidth(scale) > right - left) scale = columns.scale(--count);
  const at = (value: number) => pixel(left + scale.at(value) * (right - left));
  return {
    at,
    ticks: scale.ticks.map((tick) => ({ at: at(tick), label: scale.format(tick), isTick: true })),
  };
}

function labelsWidth({ ticks, format }: Scale): number {
  return ticks.reduce((sum, tick) => sum + textWidth(format(tick), TICK_SIZE) + 16, 0);
}

function yTick({ left, right }: Area, y: number, label: string): string {
  return (
    element('path', { class: 'grid', fill: 'none', d: `M${pixel(left)} ${y}H${right}` }) +
    text('', left - 8, y + 4, label, 'end')
  );
}

function xTick({ bottom }: Area, x: number, label: string, isTick: boolean): string {
  const mark = isTick ? element('path', { class: 'axis', fill: 'none', d: `M${x} ${bottom}v5` }) : '';
  return mark + text('', x, bottom + TICK_SIZE + 7, label, 'middle');
}

function axisLabels({ x, y }: FrameOptions, area: Area, height: number): string[] {
  const middle = pixel((area.top + area.bottom) / 2);
  const across = {
    x: 0,
    y: 0,
    'text-anchor': 'middle',
    transform: `translate(${MARGIN + 8} ${middle}) rotate(-90)`,
  };
  return [
    text('', (area.left + area.right) / 2, height - MARGIN + 2, x.label, 'middle'),
    element('text', across, escapeText(y.label)),
  ];
}
