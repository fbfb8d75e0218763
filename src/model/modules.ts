// The steps from a text to its vector or score, as the sentence-transformers library lists them in modules.json.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { isJsonObject, readJsonList } from '../weights/json-file.ts';

interface Module {
  /** Without the library's own prefix, such as `Pooling`. */
  readonly kind: string;
  readonly directory: string;
}

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
