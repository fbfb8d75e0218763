// The `decoder` of a tokenizer.json: byte-level, SentencePiece's ▁ with bytes as `<0xNN>`, or WordPiece's ## before
// continuations.

import { escapedSpace } from '../spm.ts';
import type { JsonNode } from './json-node.ts';

export interface JsonDecoder {
  readonly byteLevel: boolean;
  readonly byteTokens: boolean;
  readonly space: string | undefined;
  readonly stripsLeadingSpace: boolean;
  /** The prefix of continuations; a space precedes all other tokens. */
  readonly continuing?: string | undefined;
}

const plain: JsonDecoder = {
  byteLevel: false,
  byteTokens: false,
  space: undefined,
  stripsLeadingSpace: false,
};

export function readDecoder(node: JsonNode | undefined): JsonDecoder {
  if (node === undefined) return plain;
  switch (node.type) {
    case 'Sequence':
      return node.children('decoders').map(readDecoder).reduce(combine, plain);
    case 'ByteLevel':
      return { ...plain, byteLevel: true };
    case 'ByteFallback':
      return { ...plain, byteTokens: true };
    case 'Fuse':
      return plain;
    case 'Replace':
      return { ...plain, space: readReplacedSpace(node) };
    case 'Strip':
      return { ...plain, stripsLeadingSpace: readStrip(node) };
    case 'Metaspace':
      return readMetaspace(node);
    case 'WordPiece':
      return { ...plain, continuing: node.string('prefix'), stripsLeadingSpace: true };
    default:
      throw node.unsupportedType();
  }
}

function combine(left: JsonDecoder, right: JsonDecoder): JsonDecoder {
  return {
    byteLevel: left.byteLevel || right.byteLevel,
    byteTokens: left.byteTokens || right.byteTokens,
    space: left.space ?? right.space,
    stripsLeadingSpace: left.stripsLeadingSpace || right.stripsLeadingSpace,
    continuing: left.continuing ?? right.continuing,
  };
}

function readReplacedSpace(node: JsonNode): string {
  const pattern = node.child('pattern')?.value.String;
  if (typeof pattern === 'string' && pattern !== '' && node.string('content') === ' ') return pattern;
  throw node.fault('pattern', 'is not one that stands for a space, the only kind that is supported');
}

function readStrip(node: JsonNode): boolean {
  const start = node.integer('start');
  if (node.string('content') === ' ' && start <= 1 && node.integer('stop') === 0) return start === 1;
  throw node.fault('start', 'strips something other than one space at the start, which is not supported');
}

function readMetaspace(node: JsonNode): JsonDecoder {
  const space = node.value.replacement === undefined ? escapedSpace : node.string('replacement');
  const prepends =
    node.value.prepend_scheme === undefined
      ? node.boolean('add_prefix_space', true)
      : node.string('prepend_scheme') !== 'never';
  return { ...plain, space, stripsLeadingSpace: prepends };
}
