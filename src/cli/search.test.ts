import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type HubStandIn, startHub } from '../../test/support/hub-stand-in.ts';
import { runCommand } from '../../test/support/run-command.ts';
import { addSearch } from './search.ts';
import { UsageError } from './usage-error.ts';

describe('chairlift search', () => {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-search-'));
  const config = join(folder, 'config.json');
  writeFileSync(config, '{"memory": "1GB", "backend": "cpu"}');
  let hub: HubStandIn;
  beforeAll(async () => {
    const gguf = (saysBytes: number) => ({ bytes: Buffer.from('x'), lfs: true, saysBytes });
    hub = await startHub(
      {
        'ann/Tiny-1B-GGUF': { 'Tiny-1B-Q4_K_M.gguf': gguf(8e8), 'Tiny-1B-Q8_0.gguf': gguf(13e8) },
        'bob/tiny-odd-GGUF': { 'odd.gguf': gguf(5) },
      },
      {
        'ann/Tiny-1B-GGUF': { downloads: 12_345, gguf: { total: 1.24e9, architecture: 'llama' } },
        'bob/tiny-odd-GGUF': { gated: 'auto', gguf: { total: 2e8, architecture: 'rwkv7' } },
      },
    );
  });
  afterAll(async () => {
    await hub.close();
    rmSync(folder, { recursive: true });
  });
  const search = (...words: string[]) =>
    runCommand(addSearch, ['search', ...words, '--hub', hub.url, '--config', config]);

  it('shows models by words, and how to see their files', async () => {
    const { output } = await search('tiny', 'gguf');
    expect(output.split('\n').map((line) => line.split(/ {2,}/).filter(Boolean))).toEqual([
      ['name', 'parameters', 'architecture', 'downloads'],
      ['ann/Tiny-1B-GGUF', '1.24B', 'llama', '12,345'],
      ['bob/tiny-odd-GGUF', '200M', 'rwkv7 (not supported)', '-', 'gated: needs a token'],
      [],
      ["'chairlift search ann/Tiny-1B-GGUF' shows its files and which of them fit this machine."],
      [],
    ]);
    expect((await search('nothing')).output).toBe('The hub has no model that is called nothing.\n');
  });

  it('shows what of a repository fits, and how to pull the largest of it', async () => {
    const { output } = await search('hf:ann/Tiny-1B-GGUF');
    expect(output).toMatch(/ann\/Tiny-1B-GGUF:Q4_K_M +Q4_K_M +800 MB +yes\n/);
    expect(output).toMatch(/ann\/Tiny-1B-GGUF:Q8_0 +Q8_0 +1\.30 GB +no\n/);
    expect(output).toContain("'chairlift pull ann/Tiny-1B-GGUF:Q4_K_M' brings the largest that fits.");
    const { output: json } = await search('ann/Tiny-1B-GGUF', '--json');
    expect(JSON.parse(json).map(({ fits }: { fits: boolean }) => fits)).toEqual([true, false]);
  });

  it('says what is wrong with what it was given, and that a hub is not there', async () => {
    expect((await search('tiny', '--format', 'onnx')).error).toEqual(
      new UsageError('--format: give gguf or safetensors, not onnx'),
    );
    const { error } = await runCommand(addSearch, ['search', 'tiny', '--hub', 'http://127.0.0.1:9']);
    expect((error as Error).message).toMatch(/cannot be reached .*check the network/);
  });
});
