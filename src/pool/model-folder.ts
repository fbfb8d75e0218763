// Where models lie when nobody says otherwise, and the one that comes with the package.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Pulled models lie in it as `owner/repo/…`; files and folders may be put in by hand. */
export function defaultModelFolder(home: string): string {
  return join(home, '.chairlift', 'models');
}

/** The same from the sources and from the compiled files. */
export function embeddedModelPath(): string {
  return fileURLToPath(new URL('../../models/chairlift-demo-14m-q8_0.gguf', import.meta.url));
}
