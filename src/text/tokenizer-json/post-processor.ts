// The `post_processor` of a tokenizer.json: tokens before and after a text.

import type { JsonNode } from './json-node.ts';

export interface Surroundings {
  readonly prefixIds: readonly number[];
  readonly suffixIds: readonly number[];
}

const nothing: Surroundings = { prefixIds: [], suffixIds: [] };

export function readPostProcessor(node: JsonNode | undefined): Surroundings {
  if (node === undefined) return nothing;
  switch (node.type) {
    case 'ByteLevel':
      return nothing;
    case 'Sequence':
      return node.children('processors').map(readPostProcessor).reduce(surround, nothing);
    case 'TemplateProcessing':
      return readTemplate(node);
    case 'RobertaProcessing':
    case 'BertProcessing':
      return { prefixIds: [pairId(node, 'cls')], suffixIds: [pairId(node, 'sep')] };
    default:
      throw node.unsupportedType();
  }
}

function surround(inner: Surroundings, outer: Surroundings): Surroundings {
  return {
    prefixIds: [...outer.prefixIds, ...inner.prefixIds],
    suffixIds: [...inner.suffixIds, ...outer.suffixIds],
  };
}

function readTemplate(node: JsonNode): Surroundings {
  const prefixIds: number[] = [];
  const suffixIds: number[] = [];
  let side = prefixIds;
  for (const item of node.children('single')) {
    const special = item.child('SpecialToken');
    if (special === undefined) side = suffixIds;
    else side.push(...specialTokenIds(node, special.string('id')));
  }
  return { prefixIds, suffixIds };
}

function specialTokenIds(node: JsonNode, name: string): number[] {
  const token = node.child('special_tokens')?.child(name);
  const ids = token?.list('ids') ?? [];
  if (ids.length > 0 && ids.every((id) => Number.isSafeInteger(id))) return ids as number[];
  throw node.fault('special_tokens', `does not say the ids of ${JSON.stringify(name)}`);
}

/** Written as `[text, id]`. */
function pairId(node: JsonNode, key: string): number {
  const id = node.list(key)[1];
  if (Number.isSafeInteger(id)) return id as number;
  throw node.fault(key, 'is not a pair of token and id');
}
