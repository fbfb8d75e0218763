// `chairlift logits --model PATH --ids LIST` or `--messages FILE`: what the model predicts after each token, for comparing with
// other implementations.

import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Command, Option } from 'commander';
import { type Backend, type BackendName, BLOCK_TOKENS, backendNames } from '../compute/backend.ts';
import { buildBatch } from '../compute/batch.ts';
import { imageSpans, type SequenceImages } from '../compute/batch-images.ts';
import { ownSlot } from '../compute/batch-states.ts';
import { chooseBackend } from '../compute/choose-backend.ts';
import { type ChatMessage, chatPrompt, checkMessages } from '../generation/chat-prompt.ts';
import { sequenceImages } from '../generation/image-features.ts';
import { type ImagePrompt, imagePrompt } from '../generation/image-prompt.ts';
import type { ModelSpec } from '../model/spec.ts';
import { attentionsOf } from '../model/spec-walk.ts';
import { type LocalModel, openLocalModel } from '../pool/local-model.ts';
import { messageOf } from '../runtime/error-message.ts';
import { asUsageError, parseCount, parseIds } from './flags.ts';
import { imageFile } from './image-file.ts';
import { MODEL_MEANING, parseModel } from './models-on-disk.ts';
import { progressBar } from './terminal.ts';
import { UsageError } from './usage-error.ts';

interface LogitsOptions {
  readonly model: string;
  readonly ids?: readonly number[];
  readonly messages?: string;
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
    .description('show the logits after the last of some token ids, or of a conversation with images')
    .requiredOption('-m, --model <path>', MODEL_MEANING, parseModel)
    .addOption(
      new Option('--ids <list>', 'token ids, separated by commas').argParser(parseIds).conflicts('messages'),
    )
    .option('--messages <file>', 'chat messages as JSON; paths of images are relative to the file')
    .option('--top <n>', 'how many of the largest logits to show', parseCount, 8)
    .option('--full', 'show all logits')
    .addOption(new Option('--backend <name>', 'what computes them').choices(backendNames))
    .option('--json', 'print JSON')
    .action(run);
}

async function run(options: LogitsOptions): Promise<void> {
  const messages = options.messages === undefined ? undefined : readMessages(options.messages);
  const images = messages !== undefined && showsImages(messages);
  const choice = chooseBackend(options.backend);
  if (choice.notice) process.stderr.write(`${choice.notice}\n`);
  const model = openLocalModel(options.model, { images });
  const { spec, weights, tokenizer, close } = model;
  if (spec.headless === true) throw new UsageError('--model: this model embeds texts and has no logits');
  const prompt = await readPrompt(options, model, messages);
  checkIds(prompt.ids, spec);
  const bar = progressBar('loading');
  const backend = await choice.create(spec, weights, {
    blockCount: Math.ceil(prompt.ids.length / BLOCK_TOKENS),
    onProgress: bar.update,
  });
  bar.end();
  close();
  const ids = [...prompt.ids];
  const { argmax, last } = await predict(backend, spec, ids, await sequenceImages(backend, prompt));
  backend.close();
  const top = largest(last, options.top);
  if (options.json) {
    const shown = messages === undefined ? {} : { ids };
    const result = { ...shown, last: { top }, argmax, ...(options.full ? { logits: [...last] } : {}) };
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

/** Bare messages, or an object that has them, as a request does. */
function readMessages(path: string): readonly ChatMessage[] {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    const isObject = typeof value === 'object' && value !== null && 'messages' in value;
    return checkMessages(isObject ? value.messages : value);
  } catch (error) {
    throw new UsageError(`--messages: ${path}: ${messageOf(error)}`);
  }
}

function showsImages(messages: readonly ChatMessage[]): boolean {
  return messages.some(
    ({ content }) => Array.isArray(content) && content.some(({ type }) => type === 'image_url'),
  );
}

async function readPrompt(
  { ids, messages: path = '.', model: name }: LogitsOptions,
  model: LocalModel,
  messages: readonly ChatMessage[] | undefined,
): Promise<ImagePrompt> {
  const none = { images: [], places: new Int32Array() };
  try {
    if (messages === undefined) {
      if (ids === undefined) throw new UsageError('give token ids by --ids, or a conversation by --messages');
      return { ids: Int32Array.from(ids), ...none };
    }
    if (model.spec.vision !== undefined) {
      return await imagePrompt({ ...model, name }, messages, { load: imageFile(dirname(path)) });
    }
    const text = chatPrompt({ name, template: model.template }, { messages });
    return { ids: model.tokenizer.encode(text, { special: true }), ...none };
  } catch (error) {
    throw asUsageError(error);
  }
}

function checkIds(ids: Int32Array, spec: ModelSpec): void {
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
  spec: ModelSpec,
  ids: readonly number[],
  images: SequenceImages | undefined,
): Promise<{ argmax: number[]; last: Float32Array }> {
  const blocks = Array.from({ length: backend.blockCount }, (_, block) => block);
  const argmax: number[] = [];
  const { vocabSize } = spec;
  const endOf = pieceEnds(spec, images);
  let last = new Float32Array(0);
  for (let start = 0; start < ids.length; start = argmax.length) {
    const tokens = ids.slice(start, endOf(start));
    const sequence = { tokens, start, blocks, wantLogits: 'all', images } as const;
    const memory = backend.stateSlots === undefined ? {} : { state: ownSlot(sequence, 0) };
    const { logits } = await backend.step(buildBatch([{ ...sequence, ...memory }]));
    for (let row = 0; row < tokens.length; row++) {
      last = logits.slice(row * vocabSize, (row + 1) * vocabSize);
      argmax.push(largest(last, 1)[0]?.[0] ?? 0);
    }
  }
  return { argmax, last };
}

/** Where tokens of an image see each other, they are in one piece. */
function pieceEnds(spec: ModelSpec, images: SequenceImages | undefined): (start: number) => number {
  const together = attentionsOf(spec).some(({ imagesBothWays }) => imagesBothWays);
  const spans = together && images !== undefined ? imageSpans(images.places) : [];
  const { prefixEnd = 0 } = images ?? {};
  return (start) => {
    const end = start + PIECE_TOKENS;
    if (start < prefixEnd) return prefixEnd;
    return spans.find((span) => span.first < end && span.end > end)?.end ?? end;
  };
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
