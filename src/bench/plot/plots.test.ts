import { describe, expect, it } from 'vitest';
import { dark, light } from './frame.ts';
import { barPlot, linePlot, scatterPlot } from './plots.ts';

/** Every tag closed in its order; the names of those that stay open otherwise. */
function unclosed(svg: string): string[] {
  const open: string[] = [];
  for (const [, slash, name = '', selfClosing] of svg.matchAll(/<(\/?)([\w-]+)(?:\s[^<>]*?)?(\/?)>/g)) {
    if (slash === '/') expect(open.pop()).toBe(name);
    else if (selfClosing !== '/') open.push(name);
  }
  return open;
}

/** The last path of the class; the legend's sample comes first. */
function path(svg: string, className: string): string {
  return [...svg.matchAll(new RegExp(`class="${className}" d="([^"]*)"`, 'g'))].at(-1)?.[1] ?? '';
}

const x = { label: 'streams' };
const y = { label: 'tokens per second' };

describe('a line plot', () => {
  const svg = linePlot({
    title: 'A <b>& "more"',
    x,
    y,
    width: 500,
    height: 300,
    series: [
      {
        name: 'one',
        points: [
          [0, 0],
          [10, 100],
        ],
      },
      {
        name: 'two',
        points: [
          [0, 50],
          [10, 20],
        ],
      },
    ],
  });

  it('stands alone: namespace, size, styles for light and dark, nothing from elsewhere', () => {
    expect(svg).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg"[^>]* viewBox="0 0 500 300"/);
    expect(svg).toContain('prefers-color-scheme:dark');
    expect(svg).not.toMatch(/<script|url\(|href=/);
    expect(unclosed(svg)).toEqual([]);
  });

  it('escapes names, labels its axes and its series', () => {
    expect(svg).toContain('A &lt;b&gt;&amp; &quot;more&quot;');
    for (const text of ['streams', 'tokens per second', 'one', 'two'])
      expect(svg).toContain(`>${text}</text>`);
  });

  it('puts high values above low ones, later ones to the right', () => {
    const [, x0, y0, x1, y1] =
      /^M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)$/.exec(path(svg, 'line stroke-0')) ?? [];
    expect(Number(x1)).toBeGreaterThan(Number(x0));
    expect(Number(y1)).toBeLessThan(Number(y0));
    expect(Number(x1)).toBeLessThan(500);
    expect(Number(y1)).toBeGreaterThan(0);
  });

  it('tells the values of few points, and leaves many without marks', () => {
    expect(svg).toContain('<title>two: 10, 20</title>');
    const many = Array.from({ length: 100 }, (_, n): [number, number] => [n, n]);
    expect(linePlot({ title: 't', x, y, series: [{ name: 'a', points: many }] })).not.toContain('<title>');
  });

  it('holds a value until the next point where steps are asked for', () => {
    const points: [number, number][] = [
      [0, 1],
      [1, 3],
    ];
    const steps = linePlot({ title: 't', x, y, shape: 'steps', series: [{ name: 'a', points }] });
    expect(path(steps, 'line stroke-0')).toMatch(/^M[\d.]+ [\d.]+H[\d.]+V[\d.]+$/);
  });

  it('is drawn without data, too', () => {
    expect(unclosed(linePlot({ title: 't', x, y, series: [] }))).toEqual([]);
    const empty = linePlot({ title: 't', x: { ...x, scale: 'log' }, y, series: [{ name: 'a', points: [] }] });
    expect(empty).not.toContain('NaN');
  });
});

describe('a scatter plot', () => {
  it('draws each series as one path, dots or crosses', () => {
    const points: [number, number][] = [
      [0, 1],
      [1, 3],
      [2, 2],
    ];
    const svg = scatterPlot({
      title: 't',
      x,
      y,
      series: [
        { name: 'fine', points },
        { name: 'failed', points, mark: 'cross' },
      ],
    });
    expect(svg.match(/class="dots stroke-0"/g)).toHaveLength(2);
    expect(svg.match(/class="crosses stroke-1"/g)).toHaveLength(2);
    expect(svg.match(/h0/g)).toHaveLength(3 + 1);
    expect(unclosed(svg)).toEqual([]);
  });
});

describe('a bar plot', () => {
  it('draws a bar for each value there is, as high as it is', () => {
    const svg = barPlot({
      title: 't',
      x: { label: '' },
      y,
      groups: ['p50', 'p99'],
      series: [
        { name: 'high', values: [10, 20] },
        { name: 'low', values: [40, undefined] },
      ],
    });
    const bars = [...svg.matchAll(/height="([\d.]+)" rx="2"><title>([^<]*)/g)];
    expect(bars.map(([, , label]) => label)).toEqual(['high, p50: 10', 'high, p99: 20', 'low, p50: 40']);
    const heights = bars.map(([, height]) => Number(height));
    expect((heights[1] as number) / (heights[0] as number)).toBeCloseTo(2, 1);
    expect((heights[2] as number) / (heights[0] as number)).toBeCloseTo(4, 1);
    expect(unclosed(svg)).toEqual([]);
  });
});

/** As WCAG defines it, of two colours in the form #rrggbb. */
function contrast(left: string, right: string): number {
  const [darker, lighter] = [luminance(left), luminance(right)].sort((a, b) => a - b) as [number, number];
  return (lighter + 0.05) / (darker + 0.05);
}

function luminance(colour: string): number {
  const channel = (at: number) => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

describe.each([
  ['light', light],
  ['dark', dark],
])('the %s palette', (_, { paper, ink, muted, series }) => {
  it('can be read: text at 4.5 to 1, drawings at 3 to 1 at least', () => {
    for (const text of [ink, muted]) expect(contrast(text, paper)).toBeGreaterThanOrEqual(4.5);
    for (const colour of series) expect(contrast(colour, paper), colour).toBeGreaterThanOrEqual(3);
  });

  it('has a colour of its own for each of eight series', () => {
    expect(new Set(series).size).toBe(8);
  });
});
