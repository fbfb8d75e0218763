// `chairlift logits --model PATH --ids LIST`: what the model predicts after each token, for comparing with
// other implementations.

import { type Command, Option } from 'commander';
import { type Backend, type BackendName, BLOCK_TOKENS, backendNames } from '../compute/backend.ts';
import { buildBatch } from '../compute/batch.ts';
import { ownSlot } from '../compute/batch-states.ts';
import { chooseBackend } from '../compute/choose-backend.ts';
import type { ModelSpec } from '../model/spec.ts';
import { openLocalModel } from '../pool/local-model.ts';
import { parseCount, parseIds } from './flags.ts';
import { MODEL_MEANING, parseModel } from './models-on-disk.ts';
import { progressBar } from './terminal.ts';
import { UsageError } from './usage-error.ts';

interface LogitsOptions {
  readonly model: string;
  readonly ids: readonly number[];
  readonly top: number;
  readonly full?: true;
  readonly backend?: BackendName;
  readonly json?: true;
}

// Every position's logits are wanted: short pieces limit their memory.
const PIECE_TOKENS = 64;

export function addLogits(program: Command): void {
  program
    .command('logits')
    .description('show the logits after the last of some token ids')
    .requiredOption('-m, --model <path>', MODEL_MEANING, parseModel)
    .requiredOption('--ids <list>', 'token ids, separated by commas', parseIds)
    .option('--top <n>', 'how many of the largest logits to show', parseCount, 8)
    .option('--full', 'show all logits')
    .addOption(new Option('--backend <name>', 'what computes them').choices(backendNames))
    .option('--json', 'print JSON')
    .action(run);
}

async function run(options: LogitsOptions): Promise<void> {
  const choice = chooseBackend(options.backend);
  if (choice.notice) process.stderr.write(`${choice.notice}\n`);
  const { files, spec, tokenizer, close } = openLocalModel(options.model);
  if (spec.headless === true) throw new UsageError('--model: this model embeds texts and has no logits');
  checkIds(options.ids, spec);
  const bar = progressBar('loading');
  const backend = await choice.create(spec, files.weights, {
    blockCount: Math.ceil(options.ids.length / BLOCK_TOKENS),
    onProgress: bar.update,
  });
  bar.end();
  close();
  const { argmax, last } = await predict(backend, options.ids, spec.vocabSize);
  backend.close();
  const top = largest(last, options.top);
  if (options.json) {
    const result = { last: { top }, argmax, ...(options.full ? { logits: [...last] } : {}) };
    process.stdout.write(`${JSON.stringify(result)}\n`);
    return;
  }
  const shown = options.full ? [...last.entries()] : top;
  for (const [id, logit] of shown) {
    const text = JSON.stringify(tokenizer.tokenText(id) ?? '');
    process.stdout.write(`${String(id).padStart(8)}  ${logit.toFixed(5).padStart(10)}  ${text}\n`);
  }
  process.stdout.write(`argmax by position: ${argmax.join(' ')}\n`);
}

function checkIds(ids: readonly number[], spec: ModelSpec): void {
  const unknown = ids.find((id) => id >= spec.vocabSize);
  if (unknown !== undefined) {
    throw new UsageError(
      `--ids: ${unknown} is no token of this model; give ids from 0 to ${spec.vocabSize - 1}`,
    );
  }
  if (ids.length > spec.contextLength) {
    throw new UsageError(
      `--ids: ${ids.length} tokens do not fit the model's context of ${spec.contextLength}`,
    );
  }
}

async function predict(
  backend: Backend,
  ids: readonly number[],
  vocabSize: number,
): Promise<{ argmax: number[]; last: Float32Array }> {
  const blocks = Array.from({ length: backend.blockCount }, (_, block) => block);
  const argmax: number[] = [];
  let last = new Float32Array(0);
  for (let start = 0; start < ids.length; start += PIECE_TOKENS) {
    const tokens = ids.slice(start, start + PIECE_TOKENS);
    const sequence = { tokens, start, blocks, wantLogits: 'all' } as const;
    const memory = backend.stateSlots === undefined ? {} : { state: ownSlot(sequence, 0) };
    const { logits } = await backend.step(buildBatch([{ ...sequence, ...memory }]));
    for (let row = 0; row < tokens.length; row++) {
      last = logits.slice(row * vocabSize, (row + 1) * vocabSize);
      argmax.push(largest(last, 1)[0]?.[0] ?? 0);
    }
  }
  return { argmax, last };
}

/** Largest first; among equals the lower id. */
function largest(logits: Float32Array, count: number): [id: number, logit: number][] {
  if (count === 1) {
    let best = 0;
    for (let id = 1; id < logits.length; id++)
      if ((logits[id] as number) > (logits[best] as number)) best = id;
    return [[best, logits[best] as number]];
  }
  return [...logits.entries()].sort(([a, x], [b, y]) => y - x || a - b).slice(0, count);
}
