// Damaged model files, thousands of them from fixed seeds, through parser, loader and spec builder: each is
// either read or refused with a ModelFileError, and none makes the process allocate what the file only claims.

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { buildSpec } from '../../src/model/build-spec.ts';
import { modelPooling } from '../../src/model/pooling.ts';
import { openText } from '../../src/text/open-text.ts';
import { ModelFileError } from '../../src/weights/model-file-error.ts';
import { type OpenedModel, openModelFiles } from '../../src/weights/open-model.ts';
import { readFloats } from '../../src/weights/weight-source.ts';
import { joinSafetensors } from '../support/safetensors-writer.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';
import { cases, some } from '../support/thorough.ts';
import { damageBytes, damageJson, lyingSizes, writeField } from './mutations.ts';
import { type Random, seededRandom } from './random.ts';
import { type Specimen, specimens } from './specimens.ts';

const BYTE_CASES = cases(500);
const JSON_CASES = cases(300);
// On machines of any speed, beside other tests.
const TIMEOUT_MS = 600_000;
/** Those that GGUF knows, and a few more. */
const TYPE_NUMBERS = 44;
// What one case may leave in array buffers: a few copies of files this small, and nothing a header claims.
const CASE_BYTES = 8 * 2 ** 20;

const consumers: readonly ((model: OpenedModel) => void)[] = [
  readEveryTensor,
  (model) => modelPooling(model, buildSpec(model)),
  (model) => model.format === 'gguf' && openText(model),
];

function readEveryTensor({ weights }: OpenedModel): void {
  for (const name of weights.tensors.keys()) readFloats(weights, name);
}

const root = mkdtempSync(join(tmpdir(), 'chairlift-fuzz-'));
afterAll(() => rmSync(root, { recursive: true }));
afterEach(() => vi.restoreAllMocks());

type Outcome = 'read' | 'refused';

/** Opens and uses a model; throws on any failure that is not a clear refusal. */
function attempt(path: string): Outcome {
  let model: OpenedModel | undefined;
  try {
    model = openModelFiles(path);
    for (const consume of consumers) consume(model);
    return 'read';
  } catch (error) {
    if (!(error instanceof ModelFileError)) throw error;
    expect(error.fault.file.startsWith(dirname(path))).toBe(true);
    expect(error.message).toMatch(/^[^:]+: .+: .+\. .+\.$/);
    expect(error.message.length).toBeLessThan(2000);
    return 'refused';
  } finally {
    model?.weights.close();
  }
}

function writeFolder(specimen: Specimen): { readonly folder: string; readonly path: string } {
  const folder = join(root, specimen.name.replaceAll(' ', '-'));
  mkdirSync(folder, { recursive: true });
  for (const [name, bytes] of Object.entries(specimen.files)) writeFileSync(join(folder, name), bytes);
  return { folder, path: specimen.entry === undefined ? folder : join(folder, specimen.entry) };
}

/** Files this process holds open, where the system can tell. */
function openFiles(): number {
  return existsSync('/dev/fd') ? readdirSync('/dev/fd').length : 0;
}

function fileOf(specimen: Specimen, name: string): Buffer {
  const bytes = specimen.files[name];
  if (bytes === undefined) throw new Error(`${specimen.name} has no ${name}`);
  return bytes;
}

/** As a new file: ext4 writes one that was truncated to the disk at once, which takes ten times as long as a case. */
function replaceFile(path: string, bytes: Buffer): void {
  rmSync(path, { force: true });
  writeFileSync(path, bytes);
}

/** Runs `count` cases, each with one file replaced, and counts the outcomes. */
function attemptAll(
  specimen: Specimen,
  count: number,
  damage: (index: number) => { readonly file: string; readonly bytes: Buffer },
): Readonly<Record<Outcome, number>> {
  const { folder, path } = writeFolder(specimen);
  const openBefore = openFiles();
  const outcomes = { read: 0, refused: 0 };
  for (let index = 0; index < count; index++) {
    const { file, bytes } = damage(index);
    replaceFile(join(folder, file), bytes);
    const before = process.memoryUsage().arrayBuffers;
    try {
      outcomes[attempt(path)] += 1;
    } catch (error) {
      throw new Error(`${specimen.name}: case ${index} was neither read nor refused`, { cause: error });
    }
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(CASE_BYTES);
    replaceFile(join(folder, file), fileOf(specimen, file));
  }
  // The test runner may open a few of its own meanwhile.
  expect(openFiles() - openBefore).toBeLessThan(20);
  return outcomes;
}

describe.each(specimens().map((specimen) => [specimen.name, specimen] as const))('%s', (_, specimen) => {
  it('is read when it is whole', () => {
    expect(attempt(writeFolder(specimen).path)).toBe('read');
  });

  it(`survives ${BYTE_CASES} blind damages`, { timeout: TIMEOUT_MS }, () => {
    const random = seededRandom(0xc0ffee);
    const original = fileOf(specimen, specimen.target);
    const outcomes = attemptAll(specimen, BYTE_CASES, () => ({
      file: specimen.target,
      bytes: damageBytes(original, specimen.headerBytes, random),
    }));
    expect(outcomes.refused).toBeGreaterThan(BYTE_CASES / 4);
    expect(outcomes.read).toBeGreaterThan(0);
  });

  it('survives a lie in every count, length, type and offset', { timeout: TIMEOUT_MS }, () => {
    const original = fileOf(specimen, specimen.target);
    const lies = some(specimen.fields.flatMap((field) => lyingSizes.map((size) => ({ field, size }))));
    const allocate = vi.spyOn(Buffer, 'allocUnsafeSlow');
    const outcomes = attemptAll(specimen, lies.length, (index) => {
      const bytes = Buffer.from(original);
      const lie = lies[index];
      if (lie !== undefined) writeField(bytes, lie.field, lie.size);
      return { file: specimen.target, bytes };
    });
    expect(outcomes.refused).toBeGreaterThan(lies.length / 2);
    const largestFile = Math.max(...Object.values(specimen.files).map((bytes) => bytes.length));
    expect(Math.max(...allocate.mock.calls.map(([size]) => size))).toBeLessThanOrEqual(largestFile);
  });
});

describe.each(
  specimens()
    .filter((specimen) => specimen.target.endsWith('.gguf'))
    .map((specimen) => [specimen.name, specimen] as const),
)('%s: types that lie', (_, specimen) => {
  it('survives any type number in place of a tensor’s own', { timeout: TIMEOUT_MS }, () => {
    const original = fileOf(specimen, specimen.target);
    const types = specimen.fields.filter(({ name }) => /^(some|blk)\..* type$/.test(name));
    // Three neighbours see every number, where each sees a third.
    const lies = some(
      types.flatMap((field) => Array.from({ length: TYPE_NUMBERS }, (_, id) => ({ field, id }))),
    );
    const outcomes = attemptAll(specimen, lies.length, (index) => {
      const bytes = Buffer.from(original);
      const lie = lies[index];
      if (lie !== undefined) writeField(bytes, lie.field, BigInt(lie.id));
      return { file: specimen.target, bytes };
    });
    expect(outcomes.read).toBeGreaterThanOrEqual(some(types).length);
    expect(outcomes.refused).toBeGreaterThan(lies.length / 2);
  });
});

describe.each(
  specimens()
    .filter((specimen) => specimen.files['config.json'] !== undefined)
    .map((specimen) => [specimen.name, specimen] as const),
)('%s: JSON that parses but lies', (_, specimen) => {
  it(`survives ${JSON_CASES} lies in the tensor table`, { timeout: TIMEOUT_MS }, () => {
    const random = seededRandom(0xbeef);
    const original = fileOf(specimen, specimen.target);
    const header = JSON.parse(original.toString('utf8', 8, specimen.headerBytes));
    const data = original.subarray(specimen.headerBytes);
    const outcomes = attemptAll(specimen, JSON_CASES, () => ({
      file: specimen.target,
      bytes: joinSafetensors(damageJson(header, random) ?? null, data),
    }));
    expect(outcomes.refused).toBeGreaterThan(JSON_CASES / 2);
  });

  it.each(Object.keys(specimen.files).filter((name) => name.endsWith('.json')))(
    `survives ${JSON_CASES} lies in %s`,
    { timeout: TIMEOUT_MS },
    (file) => {
      const random = seededRandom(0xfade);
      const original = JSON.parse(fileOf(specimen, file).toString('utf8'));
      const outcomes = attemptAll(specimen, JSON_CASES, () => ({
        file,
        bytes: Buffer.from(JSON.stringify(damageJson(original, random) ?? null)),
      }));
      expect(outcomes.refused).toBeGreaterThan(JSON_CASES / 4);
    },
  );
});

/** A folder of the shared data as a specimen; the start of its weight file stands for the header. */
function sharedSpecimen(folder: string, target: string, random: Random): Specimen {
  const files = Object.fromEntries(
    readdirSync(testdata(folder)).map((name) => [name, readFileSync(testdata(folder, name))]),
  );
  const headerBytes = 4096 + random.below(4096);
  return { name: folder.replaceAll('/', '-'), files, target, headerBytes, fields: [] };
}

describe.skipIf(!hasTestdata)('damaged reference files (skipped without shared test data)', () => {
  it.each([
    ['stories260K', 'stories260K.gguf'],
    ['tinystories-656k-bf16-sharded', 'model-00001-of-00002.safetensors'],
    ['tinystories-656k-mlx-4bit', 'model.safetensors'],
  ])('%s survives 60 blind damages', { timeout: TIMEOUT_MS }, (folder, target) => {
    const random = seededRandom(0xdecade);
    const specimen = sharedSpecimen(folder, target, random);
    const original = fileOf(specimen, target);
    const outcomes = attemptAll(specimen, 60, () => ({
      file: target,
      bytes: damageBytes(original, specimen.headerBytes, random),
    }));
    expect(outcomes.refused + outcomes.read).toBe(60);
  });
});
