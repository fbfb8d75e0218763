// Answers the evaluation's prompts with Chairlift's own engine: node answer.js model.gguf eval.jsonl out.jsonl
// The prompts are taken as rendered by evaluation.py; the answers go to its `score`.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const LIMIT = 512;
const [model, prompts, output] = process.argv.slice(2);
if (output === undefined) {
  process.stderr.write('usage: node answer.js model.gguf eval.jsonl out.jsonl\n');
  process.exit(1);
}

const folder = mkdtempSync(join(tmpdir(), 'chairlift-evaluation-'));
const lines = readFileSync(prompts, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line));
const input = join(folder, 'prompts.jsonl');
writeFileSync(input, lines.map(({ id, prompt }) => JSON.stringify({ id, prompt })).join('\n'));
const launcher = fileURLToPath(new URL('../../bin/chairlift.js', import.meta.url));
const { status } = spawnSync(
  process.execPath,
  [
    launcher,
    'batch',
    '--model',
    model,
    '--prompts',
    input,
    '--output',
    output,
    '--max-tokens',
    String(LIMIT),
  ],
  { stdio: 'inherit' },
);
rmSync(folder, { recursive: true });
process.exit(status ?? 1);
