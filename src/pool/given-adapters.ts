// Adapters as users give them, `model:name=path`, looked at before anything is served.

import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { AdapterPath } from '../model/open-spec.ts';
import { openAdapter } from '../weights/adapter-files.ts';

export interface GivenAdapter extends AdapterPath {
  /** The model's name. */
  readonly model: string;
  /** Seconds since 1970 when its file was last changed. */
  readonly createdSeconds: number;
}

/** Throws where the text is another, or the path holds no adapter. */
export function readGivenAdapter(text: string): GivenAdapter {
  const found = /^([^=]+):([^=:]+)=(.+)$/.exec(text);
  const [, model = '', name = '', given = ''] = found ?? [];
  if (found === null) throw new Error(`give model:name=path, not ${text}`);
  const files = openAdapter(resolve(given));
  files.weights.close();
  return {
    model,
    name,
    path: resolve(given),
    createdSeconds: Math.floor(statSync(files.path).mtimeMs / 1000),
  };
}
