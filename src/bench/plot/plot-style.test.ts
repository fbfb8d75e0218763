import { describe, expect, it } from 'vitest';
import { dark, light } from './plot-style.ts';

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
