// Colours of blocks and riders, as the theme has them now.

import { colourOf, cssColour, type Rgb } from '../shell/theme.ts';
import { FIRST_SEAT } from './block-map.ts';

/** Riders beyond these share colours; their names tell them apart. */
export const RIDER_COLOURS = 12;

export interface Palette {
  readonly states: readonly Rgb[];
  readonly riders: readonly Rgb[];
  readonly prompt: string;
  readonly line: string;
  readonly ink: string;
}

export function readPalette(): Palette {
  return {
    states: ['--block-none', '--block-empty', '--block-cached', '--block-shared'].map(colourOf),
    riders: Array.from({ length: RIDER_COLOURS }, (_, at) => colourOf(`--rider-${at}`)),
    prompt: cssColour(colourOf('--prompt')),
    line: cssColour(colourOf('--line')),
    ink: cssColour(colourOf('--ink-soft')),
  };
}

export function blockColour({ states, riders }: Palette, state: number): Rgb {
  return (state < FIRST_SEAT ? states[state] : riders[(state - FIRST_SEAT) % RIDER_COLOURS]) as Rgb;
}
