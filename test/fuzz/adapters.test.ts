// Damaged adapters from fixed seeds: each is read or refused with a ModelFileError, one line that names its file.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { withAdapters } from '../../src/model/adapters.ts';
import { buildSpec } from '../../src/model/build-spec.ts';
import { openAdapter } from '../../src/weights/adapter-files.ts';
import { ModelFileError } from '../../src/weights/model-file-error.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import {
  adapterTensors,
  type FormulaAdapter,
  formulaAdapters,
  writeGgufAdapter,
  writeMlxFolder,
  writePeftFolder,
} from '../support/formula-adapter.ts';
import { asGguf } from '../support/formula-gguf.ts';
import { asFolder, formulaModel } from '../support/formula-model.ts';
import { cases } from '../support/thorough.ts';
import { damageBytes, damageJson } from './mutations.ts';
import { seededRandom } from './random.ts';

const CASES = cases(1000);

const root = mkdtempSync(join(tmpdir(), 'chairlift-fuzz-'));
afterAll(() => rmSync(root, { recursive: true }));

const [adapter] = formulaAdapters as [FormulaAdapter];
const model = formulaModel(adapter.model);
const tensors = adapterTensors(adapter);
const folder = writePeftFolder(join(root, 'peft'), adapter.config, tensors);
const gguf = writeGgufAdapter(join(root, 'adapter.gguf'), tensors, { q: 4, k: 2 }, 6);
const mlx = writeMlxFolder(join(root, 'mlx'), tensors);
const llama = asGguf(model, { architecture: 'llama', pairs: true, keys: { 'rope.freq_base': 5000 } });

function attempt(path: string, opened: OpenedModel): 'read' | 'refused' {
  try {
    const files = openAdapter(path);
    try {
      withAdapters(buildSpec(opened), opened, [{ name: 'damaged', files }]);
    } finally {
      files.weights.close();
    }
    return 'read';
  } catch (error) {
    if (!(error instanceof ModelFileError)) throw error;
    expect(error.message).toMatch(/^[^\n]+$/);
    expect(error.fault.file.startsWith(root)).toBe(true);
    return 'refused';
  }
}

/** Damages a file again and again, and leaves it whole. */
function survive(
  path: string,
  given: string,
  opened: OpenedModel,
  damage: (bytes: Buffer) => Uint8Array,
): void {
  const original = readFileSync(path);
  const outcomes = { read: 0, refused: 0 };
  for (let index = 0; index < CASES; index++) {
    // As a new file: ext4 writes one that was truncated to the disk at once.
    rmSync(path);
    writeFileSync(path, damage(original));
    outcomes[attempt(given, opened)]++;
  }
  writeFileSync(path, original);
  expect(attempt(given, opened)).toBe('read');
  expect(outcomes.refused).toBeGreaterThan(CASES / 5);
}

describe('a damaged adapter', () => {
  it(`of PEFT survives ${CASES} damages of its weights`, () => {
    const random = seededRandom(1);
    const path = join(folder, 'adapter_model.safetensors');
    survive(path, folder, asFolder(model), (bytes) => damageBytes(bytes, 2000, random));
  });

  it(`of PEFT survives ${CASES} lies in its configuration`, () => {
    const random = seededRandom(2);
    const path = join(folder, 'adapter_config.json');
    survive(path, folder, asFolder(model), (bytes) =>
      Buffer.from(JSON.stringify(damageJson(JSON.parse(bytes.toString('utf8')), random) ?? null)),
    );
  });

  it(`of mlx-lm survives ${CASES} damages of its weights`, () => {
    const random = seededRandom(4);
    const path = join(mlx, 'adapters.safetensors');
    survive(path, mlx, asFolder(model), (bytes) => damageBytes(bytes, 2000, random));
  });

  it(`of mlx-lm survives ${CASES} lies in its configuration`, () => {
    const random = seededRandom(5);
    const path = join(mlx, 'adapter_config.json');
    survive(path, mlx, asFolder(model), (bytes) =>
      Buffer.from(JSON.stringify(damageJson(JSON.parse(bytes.toString('utf8')), random) ?? null)),
    );
  });

  it(`of GGUF survives ${CASES} damages`, () => {
    const random = seededRandom(3);
    survive(gguf, gguf, llama, (bytes) => damageBytes(bytes, 2000, random));
  });
});
