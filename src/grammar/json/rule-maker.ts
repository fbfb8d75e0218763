// What arrays and objects need of the rules for the values in them.

import type { CharacterDfa } from '../regular/character-dfa.ts';
import type { Node, RuleBook } from '../rules.ts';
import type { Negations } from './negation.ts';
import type { Plain } from './plain-schemas.ts';
import type { Conjunction } from './schema.ts';
import type { SchemaDocument } from './schema-document.ts';
import type { StringSpelling } from './strings.ts';

export interface RuleMaker {
  readonly document: SchemaDocument;
  readonly book: RuleBook;
  readonly strings: StringSpelling;
  readonly negations: Negations;
  /** Values that are valid against all of the schemas. */
  node(conjunction: Conjunction): Node;
  literal(value: unknown): Node;
  language(dfa: CharacterDfa, most?: number): Node;
  alternatives(schemas: Conjunction): Plain[];
  /** Sets of values that an automaton tells apart; false where the schema has too many. */
  spendSets(count: number): boolean;
  isValid(value: unknown, schemas: Conjunction): boolean;
}
