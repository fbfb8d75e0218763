// What is said of a model that could do more than it does here.

import type { ModelSpec } from './spec.ts';

export function textOnlyNotice({ textOnly }: ModelSpec): string | undefined {
  if (textOnly !== true) return undefined;
  return 'only the text model runs: what its files hold for images or sound is left out';
}
