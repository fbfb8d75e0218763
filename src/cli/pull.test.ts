import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { type HubStandIn, startHub } from '../../test/support/hub-stand-in.ts';
import { ggufModel } from '../../test/support/model-files.ts';
import { runCommand } from '../../test/support/run-command.ts';
import { addList } from './list.ts';
import { addPull } from './pull.ts';
import { UsageError } from './usage-error.ts';

const root = mkdtempSync(join(tmpdir(), 'chairlift-pull-command-'));
const config = join(root, 'config.json');
writeFileSync(config, '{}');
afterAll(() => rmSync(root, { recursive: true }));
let hub: HubStandIn;
afterEach(() => hub?.close());

const gguf = (bytes: Uint8Array) => ({ bytes, lfs: true });
const places = (folder: string) => ['--models-folder', folder, '--config', config];
const pull = (folder: string, ...words: string[]) =>
  runCommand(addPull, ['pull', ...words, '--hub', `${hub.url}/`, ...places(folder)]);

describe('chairlift pull', () => {
  it('brings a model, says its name, and list shows it', async () => {
    hub = await startHub({
      'ann/two': { 'two-Q4_0.gguf': gguf(ggufModel), 'two-Q8_0.gguf': gguf(ggufModel) },
    });
    const folder = mkdtempSync(join(root, 'models-'));
    const first = await pull(folder, 'hf:ann/two:Q8_0');
    expect(first).toMatchObject({ output: 'two\n', error: undefined, exitCode: undefined });
    expect(first.notes).toMatch(/^two-Q8_0\.gguf {2}.*KB, checksum right\n$/);
    expect((await pull(folder, 'ann/two:q4_0')).output).toBe('two:two-Q4_0\n');
    expect((await pull(folder, 'ann/two:q4_0')).notes).toContain('was here already, checksum right');
    const { output } = await runCommand(addList, ['list', '--json', ...places(folder)]);
    expect(JSON.parse(output).map(({ name }: { name: string }) => name)).toEqual([
      'two:two-Q4_0',
      'two:two-Q8_0',
      'chairlift-demo-14m-q8_0',
    ]);
  });

  it('lists the files to choose from, with their sizes and an example', async () => {
    hub = await startHub({
      'ann/two': { 'a-Q4_0.gguf': gguf(Buffer.alloc(1500)), 'a-Q8_0.gguf': gguf(Buffer.alloc(9)) },
    });
    for (const model of ['ann/two', 'hf:ann/two', 'hf:ann/two:Q2_K']) {
      const { error, output } = await pull(root, model);
      expect(error).toBeInstanceOf(UsageError);
      expect(output).toBe('');
      expect((error as Error).message).toContain('\n  a-Q4_0.gguf  1.50 KB\n  a-Q8_0.gguf  9 B\n');
      expect((error as Error).message).toMatch(/for example: chairlift pull (hf:)?ann\/two:a-Q4_0\.gguf$/);
    }
  });

  it('tells of a model that came whole but cannot be served', async () => {
    hub = await startHub({ 'ann/odd': { 'odd.gguf': gguf(Buffer.from('no model at all')) } });
    const { notes, output } = await pull(mkdtempSync(join(root, 'models-')), 'ann/odd');
    expect(output).toBe('odd\n');
    expect(notes).toContain('it cannot be served: ');
  });

  it('keeps what came when it is interrupted, and ends as an interrupted command does', async () => {
    const bytes = Buffer.alloc(100_000, 7);
    hub = await startHub({ 'ann/big': { 'big.gguf': gguf(bytes) } });
    hub.faults.hangAfter = [60_000];
    const folder = mkdtempSync(join(root, 'models-'));
    const part = join(folder, 'ann/big/big.gguf.part');
    const interrupt = setInterval(() => {
      if (!existsSync(part) || statSync(part).size < 60_000) return;
      clearInterval(interrupt);
      process.emit('SIGINT');
    }, 20);
    const { notes, error, exitCode } = await pull(folder, 'ann/big');
    expect({ notes, error, exitCode }).toEqual({
      notes: 'stopped; what came is kept: pull again to go on\n',
      error: undefined,
      exitCode: 130,
    });
    expect(statSync(part).size).toBe(60_000);
    expect((await pull(folder, 'ann/big')).exitCode).toBeUndefined();
  });

  it('refuses an address that is none', async () => {
    const { error } = await runCommand(addPull, ['pull', 'ann/two', '--hub', 'nowhere', ...places(root)]);
    expect(error).toMatchObject({ message: expect.stringContaining('--hub: nowhere is no address') });
  });
});

describe('chairlift list', () => {
  it('shows a table, and what is wrong with a broken model', async () => {
    const folder = mkdtempSync(join(root, 'models-'));
    writeFileSync(join(folder, 'sound.gguf'), ggufModel);
    writeFileSync(join(folder, 'cut.gguf'), ggufModel.subarray(0, 100));
    const { output } = await runCommand(addList, ['list', ...places(folder)]);
    const lines = output.split('\n');
    expect(lines[0]).toMatch(/^name +format +size +changed +path$/);
    expect(lines[1]).toMatch(/^cut +broken +100 B/);
    expect(lines[2]).toMatch(/^sound +gguf +.* KB +\d{4}-\d\d-\d\d +\/.*sound\.gguf$/);
    expect(lines[5]).toMatch(/^cut: .*cut\.gguf: /);
    expect(output).toContain(`Models lie in ${folder}.`);
  });
});
