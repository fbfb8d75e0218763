// What stands in a prompt for a picture: a text with one placeholder for each feature, known before anything is computed.

import { featureCount, featureGrid } from '../model/vision/feature-grid.ts';
import type { ViewTexts } from '../model/vision/image-prompt.ts';
import type { FeatureGrid, VisionSpec } from '../model/vision/vision-spec.ts';
import type { Size } from './resample.ts';
import type { ViewPlan } from './view-plan.ts';

export interface PictureText {
  readonly text: string;
  /** Placeholders in it. */
  readonly tokens: number;
  /** Of the first view: its rows and columns are those of three-part positions. */
  readonly grid: FeatureGrid;
}

export function pictureText({ tower, prompt }: VisionSpec, plan: ViewPlan, picture: Size): PictureText {
  const grids = plan.views.map((view) => featureGrid(tower.steps, view));
  const grid = grids[0] ?? { rows: 0, columns: 0 };
  const tokens = featureCount(tower.join, grids, { ...plan, picture });
  const { layout, text: placeholder } = prompt;
  const run = (count: number) => placeholder.repeat(count);
  switch (layout.kind) {
    case 'run':
      return { text: layout.before + run(tokens) + layout.after, tokens, grid };
    case 'rows': {
      const row = run(grid.columns);
      return { text: Array(grid.rows).fill(row).join(layout.between) + layout.end, tokens, grid };
    }
    case 'views':
      return { text: viewsText(layout, plan, grids, run), tokens, grid };
  }
}

function viewsText(
  texts: ViewTexts,
  { views, rows, columns, whole }: ViewPlan,
  grids: readonly FeatureGrid[],
  run: (count: number) => string,
): string {
  const shown = grids.map((grid) => run(grid.rows * grid.columns));
  if (views.length === 1) return texts.before + texts.alone + shown.join('') + texts.after;
  const tiles = whole === undefined ? shown : shown.slice(0, -1);
  const rowTexts = Array.from({ length: rows }, (_, row) => {
    const own = tiles.slice(row * columns, (row + 1) * columns);
    const named = own.map((text, column) => numbered(texts.tile, row + 1, column + 1) + text);
    return named.join(texts.betweenTiles) + texts.afterRow;
  });
  const last = whole === undefined ? '' : texts.whole + (shown.at(-1) ?? '');
  return texts.before + rowTexts.join('') + last + texts.after;
}

function numbered(text: string, row: number, column: number): string {
  return text.replace('{row}', String(row)).replace('{column}', String(column));
}
