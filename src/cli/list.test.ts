import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { ggufModel, safetensorsConfig, safetensorsWeights } from '../../test/support/model-files.ts';
import { runCommand } from '../../test/support/run-command.ts';
import { addInspect } from './inspect.ts';
import { addList } from './list.ts';

const home = mkdtempSync(join(tmpdir(), 'chairlift-list-'));
const cache = join(home, 'hub');
const snapshots = join(cache, 'models--owner--tiny', 'snapshots', 'c0ffee');

beforeAll(() => {
  mkdirSync(snapshots, { recursive: true });
  mkdirSync(join(cache, 'models--owner--tiny', 'blobs'));
  const blobs = { 'config.json': safetensorsConfig, 'model.safetensors': safetensorsWeights };
  for (const [name, content] of Object.entries(blobs)) {
    writeFileSync(join(cache, 'models--owner--tiny', 'blobs', `blob-${name.length}`), content);
    symlinkSync(`../../blobs/blob-${name.length}`, join(snapshots, name));
  }
  const lmStudio = join(home, '.lmstudio', 'models', 'publisher');
  mkdirSync(join(lmStudio, 'half'), { recursive: true });
  writeFileSync(join(lmStudio, 'half', 'half-00001-of-00002.gguf'), ggufModel);
  mkdirSync(join(lmStudio, 'odd'));
  writeFileSync(join(lmStudio, 'odd', 'odd.gguf'), 'GGUF of another kind');
});
afterAll(() => rmSync(home, { recursive: true }));
afterEach(() => vi.unstubAllEnvs());

function inThisHome(): void {
  vi.stubEnv('HOME', home);
  vi.stubEnv('USERPROFILE', home);
  vi.stubEnv('HF_HUB_CACHE', cache);
}

describe('chairlift list', () => {
  it('shows what other programs have, and what is incomplete of it', async () => {
    inThisHome();
    const { output, error } = await runCommand(addList, ['list']);
    expect(error).toBeUndefined();
    const lineOf = (name: string) => output.split('\n').find((line) => line.startsWith(name)) ?? '';
    expect(lineOf('owner/tiny')).toMatch(/^owner\/tiny +safetensors .* \S*snapshots\/c0ffee$/);
    expect(lineOf('publisher/half')).toMatch(/^publisher\/half +incomplete /);
    expect(lineOf('publisher/odd')).toMatch(/^publisher\/odd +unsupported /);
    expect(output).toMatch(/^publisher\/half: .*incomplete: half-00002-of-00002\.gguf is missing/m);
    expect(output).not.toMatch(/^publisher\/odd:/m);
    expect(output).toContain("'chairlift serve --model name' serves one from where it lies");
  });

  it('gives them as JSON, each with where it is from', async () => {
    inThisHome();
    const { output } = await runCommand(addList, ['list', '--json']);
    const models = JSON.parse(output) as { name: string; source?: string; incomplete?: boolean }[];
    expect(models.filter(({ source }) => source !== undefined)).toMatchObject([
      { name: 'owner/tiny', source: 'hugging-face', incomplete: false, path: snapshots },
      { name: 'publisher/half', source: 'lm-studio', incomplete: true },
      { name: 'publisher/odd', source: 'lm-studio', incomplete: false },
    ]);
  });
});

describe('a command that takes a model', () => {
  it('takes the name of one on this machine', async () => {
    inThisHome();
    const incomplete = await runCommand(addInspect, ['inspect', 'publisher/half']);
    expect(String(incomplete.error)).toMatch(/half-00002-of-00002\.gguf is missing/);
    const none = await runCommand(addInspect, ['inspect', 'publisher/none']);
    expect(String(none.error)).toMatch(
      /publisher\/none: there is no .* no model of this name.*chairlift pull hf:publisher\/none/,
    );
    const word = await runCommand(addInspect, ['inspect', 'small']);
    expect(String(word.error)).toMatch(/there is no file and no model 'small'; 'chairlift list' shows/);
  });
});
