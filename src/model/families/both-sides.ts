// Windows of models whose tokens see both sides.

import { windowOf } from '../architecture.ts';
import type { Config } from '../config.ts';

/** Files give the width of the whole window: half of it lies on each side of a token. */
export function windowOnBothSides(config: Config): number | undefined {
  const whole = windowOf(config);
  return whole === undefined ? undefined : Math.floor(whole / 2) + 1;
}
