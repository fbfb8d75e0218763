// The `post_processor` of a tokenizer.json: tokens before and after a text.

import type { JsonNode } from './json-node.ts';

export interface Surroundings {
  readonly prefixIds: readonly number[];
  readonly suffixIds: readonly number[];
  /** Between two texts, after what ends the first. */
  readonly betweenIds: readonly number[];
}

const nothing: Surroundings = { prefixIds: [], suffixIds: [], betweenIds: [] };

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
    case 'BertProcessing': {
      const suffixIds = [pairId(node, 'sep')];
      const betweenIds = node.type === 'RobertaProcessing' ? suffixIds : [];
      return { prefixIds: [pairId(node, 'cls')], suffixIds, betweenIds };
    }
    default:
      throw node.unsupportedType();
  }
}

function surround(inner: Surroundings, outer: Surroundings): Surroundings {
  return {
    prefixIds: [...outer.prefixIds, ...inner.prefixIds],
    suffixIds: [...inner.suffixIds, ...outer.suffixIds],
    betweenIds: [...inner.betweenIds, ...outer.betweenIds],
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
  return { prefixIds, suffixIds, betweenIds: betweenTexts(node).slice(suffixIds.length) };
}

/** The tokens after the first of two texts. */
function betweenTexts(node: JsonNode): number[] {
  if (!Array.isArray(node.value.pair)) return [];
  const ids: number[] = [];
  let texts = 0;
  for (const item of node.children('pair')) {
    const special = item.child('SpecialToken');
    if (special === undefined) texts += 1;
    else if (texts === 1) ids.push(...specialTokenIds(node, special.string('id')));
  }
  return ids;
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
