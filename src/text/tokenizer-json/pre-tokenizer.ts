// The `pre_tokenizer` of a tokenizer.json: splits text into pieces that merge separately.

import { toByteCharacters } from '../bpe.ts';
import { fromOniguruma } from '../oniguruma/oniguruma.ts';
import { gpt2Pattern } from '../pre-tokenizers.ts';
import { escapedSpace } from '../spm.ts';
import { cutFurther, type Pieces, type SplitBehavior, splitBy } from '../text-splitter.ts';
import { bertWords, punctuation } from '../wordpiece.ts';
import { type JsonNode, readPattern } from './json-node.ts';

type PieceSplitter = (text: string, first: boolean) => Pieces;

export interface JsonPreTokenizer {
  readonly split: PieceSplitter;
  readonly byteLevel: boolean;
  /** Pieces are spelled so already; otherwise their UTF-8 bytes merge. */
  readonly byteCharacters: boolean;
  readonly removesText: boolean;
}

const wordsOrSymbols =
  /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\p{White_Space}]+/gu;
const behaviors: readonly string[] = [
  'Isolated',
  'Removed',
  'MergedWithPrevious',
  'MergedWithNext',
  'Contiguous',
];

export function readPreTokenizer(node: JsonNode | undefined): JsonPreTokenizer {
  const components = node === undefined ? [] : flatten(node);
  const byteLevel = components.some((component) => component.type === 'ByteLevel');
  const last = components.at(-1);
  const byteCharacters = byteLevel && last?.type !== 'ByteLevel';
  const steps = components.map((component) => readStep(component, component !== last));
  return { split: inTurn(steps), byteLevel, byteCharacters, removesText: components.some(removesText) };
}

function flatten(node: JsonNode): JsonNode[] {
  return node.type === 'Sequence' ? node.children('pretokenizers').flatMap(flatten) : [node];
}

function removesText({ type, value }: JsonNode): boolean {
  const isBert = type === 'BertPreTokenizer';
  return isBert || type.startsWith('Whitespace') || value.behavior === 'Removed' || value.replacement === '';
}

function inTurn(steps: readonly PieceSplitter[]): PieceSplitter {
  if (steps.length === 1) return steps[0] as PieceSplitter;
  return (text, first) =>
    steps.reduce<Pieces>(
      (pieces, step) => cutFurther(pieces, (piece, index) => step(piece, first && index === 0)),
      [text],
    );
}

function readStep(node: JsonNode, more: boolean): PieceSplitter {
  switch (node.type) {
    case 'ByteLevel':
      return readByteLevel(node, more);
    case 'Split':
      return splitBy(readPattern(node), readBehavior(node), node.boolean('invert', false));
    case 'Digits':
      return splitBy(node.boolean('individual_digits', false) ? /\p{N}/gu : /\p{N}+/gu, 'Isolated');
    case 'Punctuation':
      return splitBy(punctuation, readBehavior(node));
    case 'Whitespace':
      return splitBy(wordsOrSymbols, 'Removed', true);
    case 'WhitespaceSplit':
      return splitBy(/\p{White_Space}/gu, 'Removed');
    case 'BertPreTokenizer':
      return bertWords;
    case 'Metaspace':
      return readMetaspace(node);
    default:
      throw node.unsupportedType();
  }
}

/** Later steps see byte characters; without later steps, the merging handles bytes. */
function readByteLevel(node: JsonNode, more: boolean): PieceSplitter {
  const prefix = node.boolean('add_prefix_space', true);
  const cut = node.boolean('use_regex', true) ? splitBy(fromOniguruma(gpt2Pattern), 'Isolated') : undefined;
  return (text) => {
    const prefixed = prefix && !text.startsWith(' ') ? ` ${text}` : text;
    const pieces = cut?.(prefixed) ?? [prefixed];
    return more ? cutFurther(pieces, (piece) => [toByteCharacters(piece)]) : pieces;
  };
}

function readMetaspace(node: JsonNode): PieceSplitter {
  const replacement = node.value.replacement === undefined ? escapedSpace : node.string('replacement');
  const legacy = node.boolean('add_prefix_space', true) ? 'always' : 'never';
  const scheme = node.value.prepend_scheme === undefined ? legacy : node.string('prepend_scheme');
  if (!['always', 'first', 'never'].includes(scheme)) {
    throw node.fault('prepend_scheme', `${JSON.stringify(scheme)} is not supported`);
  }
  const escaped = replacement.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
  const cut = node.boolean('split', true) ? splitBy(new RegExp(escaped, 'gv'), 'MergedWithNext') : undefined;
  return (text, first) => {
    const spaced = text.replaceAll(' ', replacement);
    const prepends = scheme === 'always' || (scheme === 'first' && first);
    const whole = prepends && !spaced.startsWith(replacement) ? replacement + spaced : spaced;
    return cut?.(whole) ?? [whole];
  };
}

function readBehavior(node: JsonNode): SplitBehavior {
  const behavior = node.value.behavior === undefined ? 'Isolated' : node.string('behavior');
  if (behaviors.includes(behavior)) return behavior as SplitBehavior;
  throw node.fault('behavior', `${JSON.stringify(behavior)} is not supported`);
}
