// Colours of blocks and lanes, as the theme has them now.

import { FIRST_LANE } from '../../../src/engine/live/snapshot.ts';
import { colourOf, cssColour, type Rgb } from '../shell/theme.ts';

/** Lanes beyond these share colours; their numbers tell them apart. */
export const LANE_COLOURS = 12;

export interface Palette {
  readonly states: readonly Rgb[];
  readonly lanes: readonly Rgb[];
  readonly prompt: string;
  readonly line: string;
  readonly ink: string;
}

export function readPalette(): Palette {
  return {
    states: ['--block-none', '--block-empty', '--block-cached', '--block-shared'].map(colourOf),
    lanes: Array.from({ length: LANE_COLOURS }, (_, at) => colourOf(`--lane-${at}`)),
    prompt: cssColour(colourOf('--prompt')),
    line: cssColour(colourOf('--line')),
    ink: cssColour(colourOf('--ink-soft')),
  };
}

export function blockColour({ states, lanes }: Palette, state: number): Rgb {
  return (state < FIRST_LANE ? states[state] : lanes[(state - FIRST_LANE) % LANE_COLOURS]) as Rgb;
}
