// Converts a conversation, a text, a gap or token ids to the ids a model continues.

import type { ServedModel } from '../pool/served-model.ts';
import type { EncodeOptions } from '../text/tokenizer.ts';
import { type Conversation, chatPrompt, checkText, type TextLimits } from './chat-prompt.ts';
import type { Prompt } from './context-room.ts';
import { checkTextFits, cutText, roomOf } from './context-room.ts';
import { type GenerationError, invalid, notContinued } from './generation-error.ts';
import { ownImages } from './own-images.ts';
import { pictureParts } from './picture-parts.ts';
import { type ImageReading, type PicturedText, picturedPrompt } from './pictured-prompt.ts';
import type { PromptEncoder } from './prompt-encoder.ts';

export type PromptInput =
  | ({
      readonly kind: 'chat';
      /** Adds the model's BOS tokens to those of its template. Default false. */
      readonly bos?: boolean | undefined;
      /** Ids of what came before the conversation: the prompt and answer that it goes on from. */
      readonly before?: readonly number[] | undefined;
    } & Conversation)
  | {
      readonly kind: 'text';
      readonly text: string;
      /** Adds the model's BOS tokens. Default true. */
      readonly bos?: boolean | undefined;
      /** Adds the model's EOS tokens. Default false. */
      readonly eos?: boolean | undefined;
      /** Reads control tokens that the text spells. Default true. */
      readonly special?: boolean | undefined;
    }
  | ({ readonly kind: 'gap' } & Gap)
  /** Texts with a picture after each but the last, without the model's template. */
  | ({ readonly kind: 'pictured' } & PicturedText)
  /** Texts and token ids in one sequence. BOS comes before a text at its start alone. */
  | {
      readonly kind: 'pieces';
      readonly pieces: readonly (string | number)[];
      /** Adds the model's EOS tokens. Default false. */
      readonly eos?: boolean | undefined;
    }
  /** Two texts one after the other, each ended as the model wants it. */
  | {
      readonly kind: 'pair';
      readonly first: string;
      readonly second: string;
      /** Added to the ids of the second. */
      readonly secondText: number;
      /** The second text loses its end where both do not fit. Default false. */
      readonly cuts?: boolean | undefined;
    }
  | { readonly kind: 'ids'; readonly ids: Iterable<number> };

interface PromptOptions {
  readonly encoder: PromptEncoder;
  /** The encoder takes turns among accounts. Default: one for all. */
  readonly account?: string | undefined;
  readonly signal: AbortSignal;
  readonly parameter: string;
  /** Refuses what cannot fit the model before encoding it. Default true. */
  readonly mustFit?: boolean;
  readonly limits?: TextLimits;
  /** What templates take for the present. Default: the present. */
  readonly now?: Date | undefined;
  /** Default: `data:` URLs alone, read in the calling thread. */
  readonly images?: ImageReading | undefined;
}

type PromptModel = Pick<ServedModel, 'name' | 'path' | 'spec' | 'tokenizer' | 'template' | 'fillInMiddle'> &
  Partial<Pick<ServedModel, 'blockCount' | 'visionProblem'>>;

export async function readPrompt(
  input: PromptInput,
  model: PromptModel,
  options: PromptOptions,
): Promise<Prompt> {
  if (input.kind === 'ids') {
    return { ids: tokenIds(input.ids, model.spec.vocabSize, options.parameter), continuation: true };
  }
  if (input.kind === 'pieces') return { ids: await encodePieces(input, model, options), continuation: true };
  if (input.kind === 'pair') return { ids: await encodePair(input, model, options), continuation: true };
  // An encoder has no template, so this error comes first.
  if (input.kind !== 'text' && model.spec.headless === true) throw notContinued(model.name);
  const { encoder, account, signal, parameter, mustFit = true, limits, now } = options;
  if (input.kind === 'gap') {
    const encode: Encode = (text, how) => encoder.encode(model, text, how, { account, signal });
    const ids = await infillPrompt(input, model, encode, parameter, limits);
    return { ids, text: input.prefix, continuation: true };
  }
  if (input.kind === 'pictured') {
    const { images = ownImages, limits: textLimits, ...rest } = options;
    if (model.spec.vision === undefined)
      throw doesNotSee(input.pictures[0]?.where ?? parameter, model, images);
    return picturedPrompt(model, input, { ...rest, ...images, textLimits, bos: true });
  }
  if (input.kind === 'chat' && model.spec.vision !== undefined) return seenPrompt(input, model, options);
  if (input.kind === 'chat') refusePictures(input, model, options.images);
  const text = textOf(input, model, parameter, limits, now);
  if (mustFit) checkTextFits(text, model, parameter);
  // Chat templates write BOS themselves.
  const bos = input.bos ?? input.kind === 'text';
  const eos = input.kind === 'text' && input.eos === true;
  const special = input.kind !== 'text' || input.special !== false;
  const ids = await encoder.encode(model, text, { special, bos, eos }, { account, signal });
  const continuation = input.kind === 'text' || input.continueFinalMessage === true;
  const before = input.kind === 'chat' ? (input.before ?? []) : [];
  return { ids: before.length === 0 ? ids : after(before, ids, model), text, continuation };
}

function seenPrompt(
  input: Extract<PromptInput, { kind: 'chat' }>,
  model: PromptModel,
  { limits, images = ownImages, ...options }: PromptOptions,
): Promise<Prompt> {
  const { bos, before = [] } = input;
  const joined = (ids: Int32Array) => (before.length === 0 ? ids : after(before, ids, model));
  return picturedPrompt(model, input, { ...options, ...images, textLimits: limits, bos, before: joined });
}

function refusePictures(
  { messages }: Conversation,
  model: PromptModel,
  images: ImageReading = ownImages,
): void {
  const [picture] = pictureParts(messages);
  if (picture !== undefined) throw doesNotSee(picture.where, model, images);
}

function doesNotSee(
  where: string,
  { name, visionProblem }: PromptModel,
  { seeing = () => [] }: ImageReading,
): GenerationError {
  const others = seeing().filter((one) => one !== name);
  const why = visionProblem === undefined ? '' : ` (${visionProblem})`;
  const instead = others.length === 0 ? '' : `; these do: ${others.join(', ')}`;
  return invalid(where, `the model '${name}' does not read images${why}${instead}`, 'model_not_capable');
}

/** BOS stands at the beginning alone. */
function after(before: readonly number[], ids: Int32Array, { spec, tokenizer }: PromptModel): Int32Array {
  const rest = ids[0] === tokenizer.bosId ? ids.subarray(1) : ids;
  return Int32Array.from([...tokenIds(before, spec.vocabSize, 'context'), ...rest]);
}

async function encodePair(
  { first, second, secondText, cuts = false }: Extract<PromptInput, { kind: 'pair' }>,
  model: PromptModel,
  { encoder, account, signal, parameter, limits }: PromptOptions,
): Promise<Int32Array> {
  const shown = cuts ? cutText(second, model) : second;
  checkText(parameter, first + shown, limits);
  checkTextFits(first, model, parameter);
  if (!cuts) checkTextFits(shown, model, parameter);
  const encode = (text: string, how: EncodeOptions) =>
    encoder.encode(model, text, { special: true, ...how }, { account, signal });
  const before = [...(await encode(first, { bos: true, eos: true })), ...model.tokenizer.betweenIds];
  const ending = model.tokenizer.encode('', { eos: true });
  const whole = await encode(shown, {});
  const { spec, blockCount = Number.POSITIVE_INFINITY } = model;
  const room = Math.max(0, roomOf({ spec, blockCount }) - before.length - ending.length);
  const after = cuts ? whole.subarray(0, room) : whole;
  return Int32Array.from([...before, ...[...after, ...ending].map((id) => id + secondText)]);
}

async function encodePieces(
  { pieces, eos = false }: Extract<PromptInput, { kind: 'pieces' }>,
  model: PromptModel,
  { encoder, account, signal, parameter, limits, mustFit = true }: PromptOptions,
): Promise<Int32Array> {
  const whole = pieces.filter((piece) => typeof piece === 'string').join('');
  checkText(parameter, whole, limits);
  if (mustFit) checkTextFits(whole, model, parameter);
  const ids: number[] = [];
  for (const [at, piece] of pieces.entries()) {
    if (typeof piece === 'number') ids.push(piece);
    else {
      const how = { special: true, bos: at === 0 };
      for (const id of await encoder.encode(model, piece, how, { account, signal })) ids.push(id);
    }
  }
  if (eos) ids.push(...model.tokenizer.encode('', { eos: true }));
  return tokenIds(ids, model.spec.vocabSize, parameter);
}

function textOf(
  input: Extract<PromptInput, { kind: 'chat' | 'text' }>,
  model: PromptModel,
  parameter: string,
  limits: TextLimits | undefined,
  now: Date | undefined,
): string {
  if (input.kind === 'chat') return chatPrompt(model, input, limits, now);
  checkText(parameter, input.text, limits);
  return input.text;
}

/** Checked before conversion to 32 bits, which would hide a wrong id. */
export function tokenIds(ids: Iterable<number>, vocabSize: number, parameter: string): Int32Array {
  const list = Array.isArray(ids) ? (ids as readonly number[]) : [...ids];
  const unknown = list.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
  if (unknown === undefined) return Int32Array.from(list);
  throw invalid(parameter, `${unknown} is no token id; the model's ids are 0 to ${vocabSize - 1}`);
}

export interface Gap {
  readonly prefix: string;
  readonly suffix: string;
  readonly begun?: string | undefined;
  /** Other files of the project. Default none. */
  readonly files?: readonly ProjectFile[] | undefined;
  readonly suffixName: string;
}

interface ProjectFile {
  readonly filename?: string | undefined;
  readonly text: string;
}

type Encode = (text: string, options: EncodeOptions) => Promise<Int32Array>;

/**
 * The text before and after a gap, each after its control token, with other files of the project first. Texts are never
 * read as control tokens.
 */
export async function infillPrompt(
  { prefix, suffix, begun = '', files = [], suffixName }: Gap,
  model: PromptModel,
  encode: Encode,
  parameter: string,
  limits: TextLimits | undefined,
): Promise<Int32Array> {
  const { name, fillInMiddle: marks } = model;
  if (marks === undefined) {
    const problem = `the model '${name}' has no tokens for filling in the middle; it continues a prompt alone`;
    throw invalid(suffixName, problem);
  }
  const whole = [prefix, suffix, begun, ...files.map(({ text }) => text)].join('');
  checkText(parameter, whole, limits);
  checkTextFits(whole, model, parameter);
  const ids: number[] = [];
  const add = async (mark: number | undefined, text: string) => {
    if (mark !== undefined) ids.push(mark);
    if (text !== '') for (const id of await encode(text, { special: false })) ids.push(id);
  };
  if (model.tokenizer.addBos && model.tokenizer.bosId !== undefined) ids.push(model.tokenizer.bosId);
  if (files.length > 0 && marks.repository !== undefined) await add(marks.repository, 'project\n');
  for (const { filename = 'file', text } of files) {
    await add(marks.file, marks.file === undefined ? `\n\n${text}` : `${filename}\n${text}`);
  }
  if (files.length > 0 && marks.file !== undefined) await add(marks.file, 'current\n');
  const parts = [() => add(marks.prefix, prefix), () => add(marks.suffix, suffix)];
  for (const part of marks.middle === undefined ? parts.reverse() : parts) await part();
  await add(marks.middle, begun);
  return Int32Array.from(ids);
}

/** Longer texts are cut to this many characters a token before encoding. */
const MOST_TOKEN_CHARACTERS = 16;

interface ExpectedOptions {
  readonly encoder: PromptEncoder;
  readonly account?: string | undefined;
  readonly signal: AbortSignal;
}

/** Encodes the predicted output, at most as many tokens as the model could write. */
export async function expectedIds(
  text: string | undefined,
  model: Pick<ServedModel, 'path' | 'tokenizer' | 'spec' | 'engine'> & Parameters<typeof roomOf>[0],
  { encoder, account, signal }: ExpectedOptions,
): Promise<Int32Array | undefined> {
  if (text === undefined) return undefined;
  const room = roomOf(model);
  const start = text.slice(0, room * MOST_TOKEN_CHARACTERS);
  const ids = await encoder.encode(model, start, { special: false, bos: false }, { account, signal });
  return ids.slice(0, room);
}
