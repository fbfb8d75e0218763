// Held-out requests of the embedded model's own generator, through the chat API of a real server: calls keep to their
// tools and extractions to their schemas. tools/embedded-model/README.md says how to make more of them.

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url));

it('every tool request ends in a call its tool allows, every extraction in what its schema allows', async () => {
  const args = [pathOf('../../tools/embedded-model/ask.js'), pathOf('tool-calls.jsonl')];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const table = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
  for (const family of ['tool call', 'extraction']) {
    expect(table[family], stdout).toMatchObject({ asked: 20, valid: 20 });
    expect(table[family].right, stdout).toBeGreaterThanOrEqual(19);
  }
});
