// A grammar on its way to tables: numbered rules, each a tree over bytes, tokens and calls of other rules. Schemas,
// regular expressions and EBNF have been translated by then.

import type { CharacterDfa } from './regular/character-dfa.ts';
import type { CodePoints } from './regular/code-points.ts';

/** How characters are written: as UTF-8, or as they stand in JSON strings, where some must or may be escaped. */
export type Encoding = 'plain' | 'json';

export type Node =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'characters'; readonly set: CodePoints }
  | { readonly kind: 'sequence'; readonly parts: readonly Node[] }
  | { readonly kind: 'choice'; readonly options: readonly Node[] }
  | {
      readonly kind: 'repeat';
      readonly part: Node;
      readonly least: number;
      readonly most?: number | undefined;
    }
  /** Ways from state 0 to state 1. */
  | { readonly kind: 'network'; readonly states: number; readonly edges: readonly NetworkEdge[] }
  | { readonly kind: 'rule'; readonly rule: number }
  | { readonly kind: 'language'; readonly dfa: CharacterDfa; readonly encoding: Encoding }
  /** A JSON string of so many characters, quotes included: counted while it is read, however many they may be. */
  | { readonly kind: 'counted-string'; readonly least: number; readonly most: number }
  /** Any character of a JSON string, in any way of writing it. */
  | { readonly kind: 'string-character' }
  | { readonly kind: 'token'; readonly id: number }
  /** Bytes and control tokens, but none of these. */
  | { readonly kind: 'free'; readonly texts: readonly string[]; readonly tokens: readonly number[] };

export type NetworkEdge = readonly [from: number, node: Node, to: number];

/** Rule 0 is where an answer begins. */
export type Rules = readonly Node[];

export class RuleBook {
  readonly #nodes: (Node | undefined)[] = [];
  readonly #byKey = new Map<string, number>();

  /** For a rule that is defined later: calls of it may come first. */
  reserve(): number {
    return this.#nodes.push(undefined) - 1;
  }

  define(rule: number, node: Node): void {
    this.#nodes[rule] = node;
  }

  /** The rule of this key; where there is none yet, `make` says what it is. It may call itself. */
  named(key: string, make: () => Node): Node {
    const known = this.#byKey.get(key);
    if (known !== undefined) return { kind: 'rule', rule: known };
    const rule = this.reserve();
    this.#byKey.set(key, rule);
    this.define(rule, make());
    return { kind: 'rule', rule };
  }

  get rules(): Rules {
    return this.#nodes.map((node, rule) => {
      if (node === undefined) throw new Error(`rule ${rule} was never defined`);
      return node;
    });
  }
}
