// The model that ships with the project, for tests that need a real one.

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const embeddedModelPath = fileURLToPath(
  new URL('../../models/chairlift-demo-14m-q8_0.gguf', import.meta.url),
);

if (!existsSync(embeddedModelPath)) throw new Error('the embedded model is missing from models/');
