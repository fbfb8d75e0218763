// Bars in groups: one group a name on the x axis, in it one bar a series.

import { type Axis, axisScale, makeFrame, type PlotSize } from './frame.ts';
import { colourIndex } from './plot-style.ts';
import { extentOf } from './scale.ts';
import { element, escapeText, pixel } from './svg.ts';

interface BarSeries {
  readonly name: string;
  /** One for each group; undefined where there is none. */
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
