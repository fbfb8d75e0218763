// Where shared reference models lie, if this checkout has them beside it. Tests that need them skip otherwise.

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../shared/testdata/', import.meta.url));

export const hasTestdata = existsSync(root);

export function testdata(...parts: readonly string[]): string {
  return root + parts.join('/');
}
