// The `normalizer` of a tokenizer.json: what text becomes before it is cut into pieces.

import type { JsonNode } from './json-node.ts';
import { readPattern } from './pattern.ts';

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
    default:
      throw node.unsupportedType();
  }
}

function readStrip(node: JsonNode): Normalizer {
  const left = node.boolean('strip_left', false) ? /^\p{White_Space}+/u : /(?!)/;
  const right = node.boolean('strip_right', false) ? /(?<!\p{White_Space})\p{White_Space}+$/u : /(?!)/;
  return (text) => text.replace(left, '').replace(right, '');
}
