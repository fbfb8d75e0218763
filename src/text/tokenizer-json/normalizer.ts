// The `normalizer` of a tokenizer.json.

import { charsmapNormalizer } from '../precompiled-charsmap.ts';
import { bertFolder } from '../wordpiece.ts';
import { type JsonNode, readPattern } from './json-node.ts';

export type Normalizer = (text: string) => string;

export function readNormalizer(node: JsonNode | undefined): Normalizer {
  if (node === undefined) return (text) => text;
  switch (node.type) {
    case 'Sequence': {
      const steps = node.children('normalizers').map(readNormalizer);
      return (text) => steps.reduce((result, step) => step(result), text);
    }
    case 'Prepend': {
      const prefix = node.string('prepend');
      return (text) => (text === '' ? text : prefix + text);
    }
    case 'Replace': {
      const pattern = readPattern(node);
      const content = node.string('content');
      return (text) => text.replace(pattern, () => content);
    }
    case 'NFC':
    case 'NFD':
    case 'NFKC':
    case 'NFKD': {
      const form = node.type;
      return (text) => text.normalize(form);
    }
    case 'Lowercase':
      return (text) => text.toLowerCase();
    case 'Strip':
      return readStrip(node);
    case 'StripAccents':
      return (text) => text.replace(/\p{M}/gu, '');
    case 'BertNormalizer':
      return readBertNormalizer(node);
    case 'Precompiled': {
      const map = Buffer.from(node.string('precompiled_charsmap'), 'base64');
      const normalize = charsmapNormalizer(map);
      if (normalize === undefined) throw node.fault('precompiled_charsmap', 'is no map of characters');
      return normalize;
    }
    default:
      throw node.unsupportedType();
  }
}

/** A character composes at most four, each of up to two units. */
const COMPOSITION = 8;

/** How many times shorter a text may become; Infinity without a bound. */
export function normalizerShrinkage(node: JsonNode | undefined): number {
  switch (node?.type) {
    case undefined:
    case 'Prepend':
    case 'Lowercase':
      return 1;
    case 'Sequence':
      return node.children('normalizers').reduce((product, step) => product * normalizerShrinkage(step), 1);
    case 'NFC':
    case 'NFD':
    case 'NFKC':
    case 'NFKD':
      return COMPOSITION;
    case 'Replace':
      return replaceShrinkage(node);
    default:
      return Number.POSITIVE_INFINITY;
  }
}

function replaceShrinkage(node: JsonNode): number {
  const pattern = node.child('pattern')?.value.String;
  return typeof pattern === 'string'
    ? Math.max(1, pattern.length / node.string('content').length)
    : Number.POSITIVE_INFINITY;
}

function readBertNormalizer(node: JsonNode): Normalizer {
  const lowercases = node.boolean('lowercase', true);
  return bertFolder({
    cleans: node.boolean('clean_text', true),
    partsIdeographs: node.boolean('handle_chinese_chars', true),
    // By default, accents follow casing.
    stripsAccents: node.boolean('strip_accents', lowercases),
    lowercases,
  });
}

function readStrip(node: JsonNode): Normalizer {
  const left = node.boolean('strip_left', false) ? /^\p{White_Space}+/u : /(?!)/;
  const right = node.boolean('strip_right', false) ? /(?<!\p{White_Space})\p{White_Space}+$/u : /(?!)/;
  return (text) => text.replace(left, '').replace(right, '');
}
