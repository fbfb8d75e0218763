// Numbered rules, each a tree over bytes, tokens and calls of other rules; the input of the compiler.

import type { CharacterDfa } from './regular/character-dfa.ts';
import type { CodePoints } from './regular/code-points.ts';

/** `json`: with the escapes of JSON strings. */
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
  /** Paths from state 0 to state 1. */
  | { readonly kind: 'network'; readonly states: number; readonly edges: readonly NetworkEdge[] }
  | { readonly kind: 'rule'; readonly rule: number }
  | { readonly kind: 'language'; readonly dfa: CharacterDfa; readonly encoding: Encoding }
  /** A JSON string of `least` to `most` characters, counted while it is read; of a language where there is one. */
  | {
      readonly kind: 'counted-string';
      readonly least: number;
      readonly most: number;
      readonly dfa?: CharacterDfa | undefined;
    }
  /** A character of a JSON string, in any spelling. */
  | { readonly kind: 'string-character' }
  | { readonly kind: 'token'; readonly id: number }
  /** Any bytes and control tokens except these. */
  | { readonly kind: 'free'; readonly texts: readonly string[]; readonly tokens: readonly number[] };

export type NetworkEdge = readonly [from: number, node: Node, to: number];

/** Rule 0 is the start. */
export type Rules = readonly Node[];

export class RuleBook {
  readonly #nodes: (Node | undefined)[] = [];
  readonly #byKey = new Map<string, number>();

  /** The rule is defined later; calls may come first. */
  reserve(): number {
    return this.#nodes.push(undefined) - 1;
  }

  define(rule: number, node: Node): void {
    this.#nodes[rule] = node;
  }

  /** `make` defines a new rule, which may call itself. */
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
