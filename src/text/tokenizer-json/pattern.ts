// The `pattern` of a tokenizer file's component: a plain string, or an Oniguruma expression.

import { fromOniguruma, UnsupportedPattern } from '../oniguruma/oniguruma.ts';
import type { JsonNode } from './json-node.ts';

export function readPattern(component: JsonNode): RegExp {
  const pattern = component.child('pattern');
  if (pattern === undefined) throw component.fault('pattern', 'is missing');
  if (pattern.value.String !== undefined) {
    return new RegExp(pattern.string('String').replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), 'gv');
  }
  try {
    return fromOniguruma(pattern.string('Regex'));
  } catch (error) {
    throw error instanceof UnsupportedPattern ? pattern.fault('Regex', error.message) : error;
  }
}
