// The colours of plots, for light and dark. A plot paints its own paper, so that it can be read wherever it is
// put, and names its colours outright, so that programs without CSS variables can draw it, too.

export interface Palette {
  readonly paper: string;
  /** Titles and the marks of values. */
  readonly ink: string;
  /** Labels and axes. */
  readonly muted: string;
  readonly grid: string;
  /** One after the other for the series; told apart by lightness, too. */
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

export const TICK_SIZE = 12;
export const TITLE_SIZE = 15;

export const plotStyle = [
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

/** Which colour the n-th series has. */
export function colourIndex(series: number): number {
  return series % light.series.length;
}
