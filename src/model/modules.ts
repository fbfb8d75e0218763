// What folders of the sentence-transformers library list in modules.json: the steps from a text to its vector.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { isJsonObject, readJsonList } from '../weights/json-file.ts';

interface Module {
  /** Without the library's own prefix, such as `Pooling`. */
  readonly kind: string;
  /** Its folder. */
  readonly directory: string;
}

/** Undefined where the folder lists none. */
export function modulesOf(directory: string): readonly Module[] | undefined {
  const path = join(directory, 'modules.json');
  if (!existsSync(path)) return undefined;
  return readJsonList(path)
    .filter(isJsonObject)
    .map(({ type, path }) => ({
      kind: String(type).split('.').at(-1) ?? '',
      directory: join(directory, String(path)),
    }));
}
